-- recall: everything that is pending under this consumer, after a reply was lost; the tokens are the same again.
-- What was read and never begun goes back while the queue is paused.
--
-- KEYS    life jobs runs, ready: the four streams, shares ring
-- ARGV    consumer who asks
--         lease    ms from now, and from each renewal, for which they are the consumer's
--         count    at most so many from each stream
-- Reply   as take
-- Cost    O(count)
-- uses lib/record.lua lib/deliver.lua
local life, jobs, runs, ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local consumer, lease, count = unpack(ARGV, 1, 3)

local q = {
  life = life, jobs = jobs, runs = runs, ready = { ready0, ready1, ready2, ready3 }, shares = shares, ring = ring,
}
even_when_full(life)
local known = redis.call('HMGET', life, 'paused', 'shares_paused')
local paused = known[1] == '1'
q.stopped = known[2]
local found = {}
for band, stream in ipairs(q.ready) do
  for _, item in ipairs(of_group(redis.pcall('XPENDING', stream, 'workers', '-', '+', count, consumer))) do
    local entry = redis.call('XRANGE', stream, item[1], item[1])[1]
    if entry and paused and not is_begun(q, item[1], entry[2][2]) then
      put_back(q, band - 1, item[1], entry[2][2])
    elseif entry then
      redis.call('XCLAIM', stream, 'workers', consumer, 0, item[1], 'JUSTID')
      found[#found + 1] = { band - 1, item[1], entry[2][2] }
    else
      redis.call('XACK', stream, 'workers', item[1])
    end
  end
end
return deliver(q, found, consumer, lease, true)

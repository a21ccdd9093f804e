-- promote: jobs that are due move to their streams, to their shares, or behind their lanes.
--
-- KEYS    life jobs due cancels graves outcomes lanes behind, ready: the four streams, shares ring
-- ARGV    limit    at most so many
--         grace    ms for which a settled tombstone stays
-- Reply   {how many moved, ms until the next one is due or -1, how many outcomes `bury` may take or look for,
--         how many jobs no worker has read, then the ids of running jobs whose cancel was asked for}
-- Cost    O(jobs moved)
-- uses lib/record.lua lib/lanes.lua lib/turns.lua
local life, jobs, due, cancels, graves, outcomes, lanes, behind, ready0, ready1, ready2, ready3, shares, ring =
  unpack(KEYS)
local limit, grace = unpack(ARGV, 1, 2)

local q = {
  life = life, jobs = jobs, lanes = lanes, behind = behind, ready = { ready0, ready1, ready2, ready3 },
  shares = shares, ring = ring,
}
local now = now_ms()
local ids = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, limit)
if #ids > 0 then
  redis.call('ZREM', due, '-')
  local recs, writes, unled = in_pieces('HMGET', jobs, ids), {}, {}
  for i, id in ipairs(ids) do
    if recs[i] and not is_tombstone(recs[i]) then
      local r = read_record(recs[i])
      if r.entry == '-' then
        r.front = has(r.flags, 'l')
        r.flags = without(without(r.flags, 'p'), 'l')
        if may_run(q, id, r, unled) then
          make_ready(q, id, r)
          writes[#writes + 1] = id
          writes[#writes + 1] = write_record(r)
        end
      end
    end
  end
  in_pieces('HSET', jobs, writes)
  lead(q, unled)
  in_pieces('ZREM', due, ids)
end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
local wait = first[2] and math.max(0, tonumber(first[2]) - now) or -1

-- Graves that were lost leave outcomes behind; one call of `bury` looks for them.
local graved = redis.call('ZCOUNT', graves, '-inf', now - tonumber(grace))
if graved == 0 and redis.call('ZCARD', graves) == 0 and redis.call('XLEN', outcomes) > 0 then graved = 1 end

local waiting = redis.call('ZCARD', shares)
if waiting > 0 then
  mend_ring(q)
  prime(q)
end
for _, stream in ipairs(q.ready) do
  local pending = of_group(redis.pcall('XPENDING', stream, 'workers'))
  waiting = waiting + redis.call('XLEN', stream) - (pending[1] or 0)
end
local reply = { #ids, wait, graved, waiting }
local asked = redis.call('SRANDMEMBER', cancels, 1000)
local recs = in_pieces('HMGET', jobs, asked)
for i, id in ipairs(asked) do
  if recs[i] and not is_tombstone(recs[i]) then
    reply[#reply + 1] = id
  else
    redis.call('SREM', cancels, id)
  end
end
return reply

-- take: reads waiting entries, as many as there are free slots, and begins them.
--
-- KEYS    life     paused
--         jobs     job id -> record
--         runs     job id -> attempts
--         ready    the three streams, high, normal, low
-- ARGV    consumer who takes them
--         lease    ms from now, and from each renewal, for which they are the consumer's
--         count    at most so many
--         order    the bands in the order in which to read them, such as 012
-- Reply   {paused}, or {ok, then for each delivery: entry, id, band, record, starts, attempts, losses, expired}
-- Cost    O(count)
-- uses lib/record.lua lib/deliver.lua
local life, jobs, runs, ready0, ready1, ready2 = unpack(KEYS)
local consumer, lease, count, order = unpack(ARGV, 1, 4)

if redis.call('HGET', life, 'paused') == '1' then return { 'paused' } end
local q = { jobs = jobs, runs = runs, ready = { ready0, ready1, ready2 } }
even_when_full(life)
local found = {}
for digit in string.gmatch(order, '%d') do
  local room = tonumber(count) - #found
  if room > 0 then
    for _, item in ipairs(read_new(q.ready[digit + 1], consumer, room)) do
      found[#found + 1] = { tonumber(digit), item[1], item[2][2] }
    end
  end
end
return deliver(q, found, consumer, lease, false)

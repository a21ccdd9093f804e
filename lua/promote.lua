-- promote: jobs that are due move to their streams.
--
-- KEYS    jobs due cancels graves outcomes, ready: the three streams
-- ARGV    limit    at most so many
--         grace    ms for which a settled tombstone stays
-- Reply   {how many moved, ms until the next one is due or -1, how many outcomes `bury` may take or look for,
--         how many entries no worker has read, then the ids of running jobs whose cancel was asked for}
-- Cost    O(jobs moved)
-- uses lib/record.lua
local jobs, due, cancels, graves, outcomes, ready0, ready1, ready2 = unpack(KEYS)
local limit, grace = unpack(ARGV, 1, 2)

local ready, now = { ready0, ready1, ready2 }, now_ms()
local ids = redis.call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, limit)
if #ids > 0 then
  redis.call('ZREM', due, '-')
  local recs, writes = in_pieces('HMGET', jobs, ids), {}
  for i, id in ipairs(ids) do
    if recs[i] and not is_tombstone(recs[i]) then
      local r = read_record(recs[i])
      if r.entry == '-' then
        r.entry = redis.call('XADD', ready[r.band + 1], '*', 'j', id)
        r.flags = without(without(r.flags, 's'), 'p')
        writes[#writes + 1] = id
        writes[#writes + 1] = write_record(r)
      end
    end
  end
  in_pieces('HSET', jobs, writes)
  in_pieces('ZREM', due, ids)
end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
local wait = first[2] and math.max(0, tonumber(first[2]) - now) or -1

-- Graves that were lost leave outcomes behind; one call of `bury` looks for them.
local graved = redis.call('ZCOUNT', graves, '-inf', now - tonumber(grace))
if graved == 0 and redis.call('ZCARD', graves) == 0 and redis.call('XLEN', outcomes) > 0 then graved = 1 end

local waiting = 0
for _, stream in ipairs(ready) do
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

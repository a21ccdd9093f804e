-- bury: tombstones whose grace is over, their outcomes, and idempotency keys whose window has ended, go.
-- Where all graves are lost, the outcomes behind the settled position get new ones.
--
-- KEYS    life jobs outcomes graves keys windows
-- ARGV    limit    at most so many outcomes, and keys
--         grace    ms for which a settled tombstone stays
-- Reply   how many outcomes went
-- Cost    O(jobs in those outcomes)
-- uses lib/record.lua
local life, jobs, outcomes, graves, keys, windows = unpack(KEYS)
local limit, grace = unpack(ARGV, 1, 2)

local now = now_ms()
local old = redis.call('ZRANGEBYSCORE', graves, '-inf', now - tonumber(grace), 'LIMIT', 0, limit)
for _, outcome in ipairs(old) do
  local entry = redis.call('XRANGE', outcomes, outcome, outcome)[1]
  local ids, gone = {}, {}
  if entry then
    for i = 1, #entry[2], 2 do ids[#ids + 1] = entry[2][i] end
  end
  local recs = in_pieces('HMGET', jobs, ids)
  local mark = '! ' .. outcome .. ' '
  for i, id in ipairs(ids) do
    if recs[i] and string.sub(recs[i], 1, #mark) == mark then gone[#gone + 1] = id end
  end
  in_pieces('HDEL', jobs, gone)
  redis.call('XDEL', outcomes, outcome)
  redis.call('ZREM', graves, outcome)
end
if #old == 0 and redis.call('ZCARD', graves) == 0 then
  local settled = redis.call('HGET', life, 'settled') or '0-0'
  for _, entry in ipairs(redis.call('XRANGE', outcomes, '-', settled, 'COUNT', limit)) do
    redis.call('ZADD', graves, now, entry[1])
  end
end
local ended = redis.call('ZRANGEBYSCORE', windows, '-inf', now, 'LIMIT', 0, limit)
in_pieces('HDEL', keys, ended)
in_pieces('ZREM', windows, ended)
return #old

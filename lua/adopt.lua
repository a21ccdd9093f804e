-- adopt: names this life of Redis, after Postgres has taken every published row of the queue back.
--
-- KEYS    life     epoch, fence, settled, paused
--         jobs     job id -> record
--         keys     idempotency key -> job id
--         windows  idempotency key -> end of its window
-- ARGV    token    the holder's token
--         epoch    the life's name, already stored in Postgres
--         …        keys whose window is still open: key, job id, ms left; three values each
-- Reply   ok, or stale
-- Cost    O(keys)
-- uses lib/record.lua
local life, jobs, keys, windows = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

if tonumber(token) < tonumber(redis.call('HGET', life, 'fence') or 0) then return 'stale' end
even_when_full(life)
redis.call('HSET', life, 'epoch', epoch, 'fence', token)
local now = now_ms()
for i = 3, #ARGV, 3 do
  local owner = redis.call('HGET', keys, ARGV[i])
  if not owner or redis.call('HEXISTS', jobs, owner) == 0 then
    if owner ~= ARGV[i + 1] then redis.call('ZREM', windows, ARGV[i]) end
    redis.call('HSET', keys, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', windows, 'NX', now + tonumber(ARGV[i + 2]), ARGV[i])
  end
end
return 'ok'

-- adopt: names this life of Redis, after Postgres has taken every published row of the queue back.
--
-- KEYS    life     epoch, fence, settled, paused
--         jobs     job id -> record
--         keys     idempotency key -> job id
--         windows  idempotency key -> end of its window
--         lanes    lane -> the job that has it
-- ARGV    token    the holder's token
--         epoch    the life's name, already stored in Postgres
--         …        keys that are held without a job in Redis: key, job id, ms left of its window, or -1 until the job
--                  ends; three values each. -2: what stands for the key is a lane, which the job has until it ends
-- Reply   ok, or stale
-- Cost    O(keys)
-- uses lib/record.lua
local life, jobs, keys, windows, lanes = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

if tonumber(token) < tonumber(redis.call('HGET', life, 'fence') or 0) then return 'stale' end
even_when_full(life)
redis.call('HSET', life, 'epoch', epoch, 'fence', token)
local now = now_ms()
for i = 3, #ARGV, 3 do
  local left, owner = tonumber(ARGV[i + 2]), redis.call('HGET', keys, ARGV[i])
  if left == -2 then
    if redis.call('HEXISTS', lanes, ARGV[i]) == 0 then redis.call('HSET', lanes, ARGV[i], 's' .. ARGV[i + 1]) end
  elseif not owner or redis.call('HEXISTS', jobs, owner) == 0 then
    if owner ~= ARGV[i + 1] then redis.call('ZREM', windows, ARGV[i]) end
    redis.call('HSET', keys, ARGV[i], ARGV[i + 1])
    redis.call('ZADD', windows, 'NX', left < 0 and UNTIL_IT_ENDS or now + left, ARGV[i])
  end
end
return 'ok'

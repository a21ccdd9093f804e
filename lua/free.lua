-- free: keys of jobs that Postgres has ended, and that Redis does not hold, go, or stay for their window. Only keys
-- without an end of their own: of suspended jobs, and those whose window was lost.
--
-- KEYS    life     epoch, fence
--         jobs     job id -> record
--         keys     idempotency key -> job id
--         windows  idempotency key -> end of its window
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        key, job id, ms of its window or 0; three values each
-- Reply   {ok, how many keys changed}, {stale} below the fence, or {epoch} in another life
-- Cost    O(keys)
-- uses lib/record.lua
local life, jobs, keys, windows = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
even_when_full(life)
local now, changed = now_ms(), 0
for i = 3, #ARGV, 3 do
  local key, id, window = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  local rec = redis.call('HGET', jobs, id)
  local ends = tonumber(redis.call('ZSCORE', windows, key) or UNTIL_IT_ENDS)
  local held = redis.call('HGET', keys, key) == id and ends >= UNTIL_IT_ENDS
  if held and (not rec or is_tombstone(rec)) then
    changed = changed + 1
    if window > 0 then
      redis.call('ZADD', windows, now + window, key)
    else
      redis.call('HDEL', keys, key)
      redis.call('ZREM', windows, key)
    end
  end
end
return { 'ok', changed }

-- release: attempts have ended: what they had is free, and those who waited longest for it are told to come.
--
-- KEYS    life held expiry used line heads idle asleep tickets rates look limits, as admit
-- ARGV    consumer who ran them
--         …        of each job id and start; 0: the job is gone, and what was reserved for it is free
-- Reply   of each job that is to come: its queue, its id, and in how many ms
-- Cost    O(wants log jobs that wait), and as much for each that is told, at most 100
-- uses lib/record.lua lib/permit.lua lib/line.lua lib/limit.lua lib/wake.lua
local life, held, expiry, used, line, heads, idle, asleep, tickets, rates, look, limits = unpack(KEYS)
local consumer = unpack(ARGV, 1, 1)

even_when_full(life)
local q = limiter({
  life = life, held = held, expiry = expiry, used = used, line = line, heads = heads, idle = idle, asleep = asleep,
  tickets = tickets, rates = rates, look = look, limits = limits,
})

local function is_gone(id, p)
  if p then
    if p.state == 'r' then drop_permit(q, id, p) end
    if is_asleep(q, p.queue) then redis.call('ZADD', asleep, 0, p.queue) end
    return
  end
  local t = read_ticket(redis.call('HGET', tickets, id))
  if t and t.where == '' then
    redis.call('HDEL', tickets, id)
    redis.call('ZREM', expiry, id)
    if is_asleep(q, t.queue) then redis.call('ZADD', asleep, 0, t.queue) end
  end
end

for i = 2, #ARGV, 2 do
  local id, start = ARGV[i], tonumber(ARGV[i + 1])
  local p = read_permit(redis.call('HGET', held, id))
  if start == 0 then
    is_gone(id, p)
  elseif p and p.state ~= 'r' and p.start == start and p.consumer == consumer then
    drop_permit(q, id, p)
  end
end
return wake(q, consumer)

-- hold: a heartbeat: permits still held start anew. One whose lease lapsed is taken again where nobody else has it.
--
-- KEYS    life held expiry used line heads idle asleep tickets rates look limits, as admit
-- ARGV    consumer who runs the attempts
--         lease    ms from now
--         …        job id and start; two values each
-- Reply   the ids of those that are lost
-- Cost    O(permits); once a heartbeat interval, by every worker that holds some
-- uses lib/record.lua lib/permit.lua lib/line.lua lib/limit.lua
local life, held, expiry, used, line, heads, idle, asleep, tickets, rates, look, limits = unpack(KEYS)
local consumer, lease = unpack(ARGV, 1, 2)

even_when_full(life)
lease = tonumber(lease)
local q = limiter({
  life = life, held = held, expiry = expiry, used = used, line = line, heads = heads, idle = idle, asleep = asleep,
  tickets = tickets, rates = rates, look = look, limits = limits,
})

-- Starts are over, so only limits count; rates are passed already.
local function take_again(id, p)
  for _, w in ipairs(p.wants) do
    local head = w.kind == 'l' and head_of(q, w.key)
    if w.kind == 'l' and (head or not wait_for(q, id, w, false)) then return false end
  end
  p.state = 'h'
  for _, w in ipairs(p.wants) do
    if w.kind == 'l' then use(q, w.key, w.takes) end
  end
  redis.call('HSET', held, id, write_permit(p))
  return true
end

local ids, lost = {}, {}
for i = 3, #ARGV, 2 do ids[#ids + 1] = ARGV[i] end
local texts = in_pieces('HMGET', held, ids)
for n, id in ipairs(ids) do
  local p = read_permit(texts[n])
  local own = p and p.consumer == consumer and p.start == tonumber(ARGV[2 * n + 2]) and p.state ~= 'r'
  if own and (p.state == 'h' or take_again(id, p)) then
    redis.call('ZADD', expiry, digits(q.now + lease), id)
  else
    if own then drop_permit(q, id, p) end -- for good
    lost[#lost + 1] = id
  end
end
return lost

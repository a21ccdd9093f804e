-- adjust: a limit is set at run time, and counts instead of what jobs say of it; or that is taken back. The next sweep
-- looks at the lines of all its keys.
--
-- KEYS    life heads look limits    as admit
-- ARGV    name     of the limit
--         rule     `max N`, `rate count period burst`; empty: as jobs say
--         from     where to go on, as the last call answered; empty: at the beginning
-- Reply   where to go on, or nothing
-- Cost    O(lines of the limit), at most 500 a call
-- uses lib/record.lua
local life, heads, look, limits = unpack(KEYS)
local name, rule, from = unpack(ARGV, 1, 3)

even_when_full(life)
if rule == '' then redis.call('HDEL', limits, name) else redis.call('HSET', limits, name, rule) end
local now, seen = now_ms(), 0

-- The keys between these two: the first of each line is found, and then what comes behind it.
local function mark(first, last)
  while seen < 500 do
    local head = redis.call('ZRANGE', heads, first, last, 'BYLEX', 'LIMIT', 0, 1)[1]
    if not head then return nil end
    local key = string.match(head, '^[^\n]*')
    redis.call('ZADD', look, 'LT', digits(now), key)
    seen, first = seen + 1, '(' .. key .. '\11'
  end
  return first
end

if from == '' then
  mark('[' .. name .. '\n', '(' .. name .. '\11')
  from = '[' .. name .. ':'
end
return mark(from, '(' .. name .. ';') or ''

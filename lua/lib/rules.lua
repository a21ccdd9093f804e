-- rules: the weights and pauses of shares, as Postgres has them.
-- uses lib/record.lua lib/shares.lua lib/turns.lua

-- Who waits in a share that is paused no longer has its turn again.
local function go_on(q, share)
  for band = 0, 2 do
    local low = share .. '\0' .. band
    if #redis.call('ZRANGE', q.shares, '[' .. low, '(' .. low .. ':', 'BYLEX', 'LIMIT', 0, 1) > 0 then
      enter_ring(q, band, share)
    end
  end
end

-- The rules in ARGV take the place of those that were known: share, weight, paused (0 or 1); three values each.
local function set_rules(q, first)
  local stale, rules, paused, resumed = {}, {}, 0, {}
  for at = first, #ARGV, 3 do
    local stopped = ARGV[at + 2] == '1'
    rules['share:' .. ARGV[at]] = ARGV[at + 1] .. (stopped and ' paused' or '')
    paused = paused + (stopped and 1 or 0)
  end
  local cursor = '0'
  repeat
    local reply = redis.call('HSCAN', q.life, cursor, 'COUNT', 1000)
    cursor = reply[1]
    for i = 1, #reply[2], 2 do
      local field, was = reply[2][i], reply[2][i + 1]
      if string.sub(field, 1, 6) == 'share:' then
        if not rules[field] then stale[#stale + 1] = field end
        if string.find(was, ' paused', 1, true) and not string.find(rules[field] or '', ' paused', 1, true) then
          resumed[#resumed + 1] = string.sub(field, 7)
        end
      end
    end
  until cursor == '0'
  in_pieces('HDEL', q.life, stale)
  for field, rule in pairs(rules) do redis.call('HSET', q.life, field, rule) end
  if paused > 0 then
    redis.call('HSET', q.life, 'shares_paused', paused)
  else
    redis.call('HDEL', q.life, 'shares_paused')
  end
  for _, share in ipairs(resumed) do go_on(q, share) end
  if #resumed > 0 then prime(q) end
end

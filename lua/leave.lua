-- leave: a consumer that holds nothing goes from the groups, and with it those that have been silent for an hour.
--
-- KEYS    ready    the four streams
-- ARGV    consumer who leaves
-- Reply   how many entries it still holds; it stays while that is not 0
-- Cost    O(consumers)
-- uses lib/record.lua
local ready0, ready1, ready2, ready3 = unpack(KEYS)
local consumer = unpack(ARGV, 1, 1)

local held = 0
for _, stream in ipairs({ ready0, ready1, ready2, ready3 }) do
  for _, info in ipairs(of_group(redis.pcall('XINFO', 'CONSUMERS', stream, 'workers'))) do
    local fields = {}
    for i = 1, #info, 2 do fields[info[i]] = info[i + 1] end
    if fields.name == consumer then held = held + fields.pending end
    if fields.pending == 0 and (fields.name == consumer or fields.idle > 3600000) then
      redis.call('XGROUP', 'DELCONSUMER', stream, 'workers', fields.name)
    end
  end
end
return held

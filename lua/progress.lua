-- progress: how far bodies have come, kept with what is known of their runs, and gone with it.
--
-- KEYS    runs     job id -> how often it was started, and who holds it
-- ARGV    consumer who holds them, or held them until an accepted finish that was not the job's end
--         …        id, entry, start, text; four values each. The time is that of the last change
-- Reply   how many were new; those of a lost lease or an ended job are not written down
-- Cost    O(reports); at most once a second, by workers whose bodies report
-- uses lib/record.lua
local runs = unpack(KEYS)
local consumer = unpack(ARGV, 1, 1)

local ids, writes, now = {}, {}, now_ms()
for i = 2, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
if #ids == 0 then return 0 end
for n, text in ipairs(in_pieces('HMGET', runs, ids)) do
  local run, entry, start, told = read_run(text), ARGV[4 * n - 1], ARGV[4 * n], ARGV[4 * n + 1]
  local said_by, said = string.match(run.progress, '^\n(%d+) %d+ (.*)$')
  local holds = run.holder == consumer and run.entry == entry and run.starts == tonumber(start)
  local held = run.holder == '-' and run.last == consumer .. '/' .. start
  if (holds or held) and not (said_by == start and said == told) then
    run.progress = '\n' .. start .. ' ' .. digits(now) .. ' ' .. told
    writes[#writes + 1] = ids[n]
    writes[#writes + 1] = write_run(run)
  end
end
in_pieces('HSET', runs, writes)
return #writes / 2

-- renew: a heartbeat: the leases still held under these tokens start anew.
--
-- KEYS    life jobs runs, ready: the four streams
-- ARGV    consumer who holds them
--         …        id, entry, start, band; four values each
-- Reply   for each that is not simply renewed: id, lost or cancelled (its cancel was asked for, the lease goes on)
-- Cost    O(leases); once a heartbeat interval, by every worker
-- uses lib/record.lua
local life, jobs, runs, ready0, ready1, ready2, ready3 = unpack(KEYS)
local consumer = unpack(ARGV, 1, 1)

local ready, ids = { ready0, ready1, ready2, ready3 }, {}
even_when_full(life)
for i = 2, #ARGV, 4 do ids[#ids + 1] = ARGV[i] end
if #ids == 0 then return {} end
local recs, runtexts, reply = in_pieces('HMGET', jobs, ids), in_pieces('HMGET', runs, ids), {}
local entries = { {}, {}, {}, {} }
for n, id in ipairs(ids) do
  local entry, start, band = ARGV[4 * n - 1], ARGV[4 * n], ARGV[4 * n + 1]
  local run, rec = read_run(runtexts[n]), recs[n]
  local held = run.holder == consumer and run.entry == entry and run.starts == tonumber(start)
    and rec and not is_tombstone(rec)
  if held then
    local list = entries[band + 1]
    list[#list + 1] = entry
  end
  if not held or has(string.match(rec, '^%S+ %d+ %d+ %d+ (%S+)'), 'c') then
    reply[#reply + 1] = id
    reply[#reply + 1] = held and 'cancelled' or 'lost'
  end
end
for band, list in ipairs(entries) do
  for first = 1, #list, 1000 do
    local piece = { unpack(list, first, math.min(first + 999, #list)) }
    piece[#piece + 1] = 'JUSTID'
    of_group(redis.pcall('XCLAIM', ready[band], 'workers', consumer, 0, unpack(piece))) -- lost: the audit sees to it
  end
end
return reply

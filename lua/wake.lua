-- wake: jobs that wait for a limit go to the front, or come at another time.
--
-- KEYS    life jobs runs due, ready: the four streams
-- ARGV    count    of jobs
--         …        job id, ms until it shall come or 0; two values each
-- Reply   a word each: woken; held (a worker has it: it goes to the front as soon as that worker gives it back for its
--         limit); ready (it stands in a stream); gone (it does not wait for a limit any more)
-- Cost    O(jobs)
-- uses lib/record.lua lib/ready.lua
local life, jobs, runs, due, ready0, ready1, ready2, ready3 = unpack(KEYS)
local count = unpack(ARGV, 1, 1)

local q, now, ids = { ready = { ready0, ready1, ready2, ready3 } }, now_ms(), {}
for n = 1, tonumber(count) do ids[n] = ARGV[2 * n] end
if #ids == 0 then return {} end
even_when_full(life)
local recs, runtexts, writes, reply = in_pieces('HMGET', jobs, ids), in_pieces('HMGET', runs, ids), {}, {}

local function wake(id, r, run, delay)
  if r.entry ~= '-' and run.entry ~= r.entry then return 'ready' end
  if r.entry ~= '-' then
    if delay == 0 then r.flags = with(r.flags, 'w') end
    return 'held'
  end
  if not has(r.flags, 'l') then return 'gone' end
  if delay > 0 then
    redis.call('ZADD', due, now + delay, id)
  else
    redis.call('ZREM', due, id)
    r.front, r.flags = true, without(r.flags, 'l')
    make_ready(q, id, r)
  end
  return 'woken'
end

for n, id in ipairs(ids) do
  local rec = recs[n]
  if not rec or is_tombstone(rec) then
    reply[n] = 'gone'
  else
    local r = read_record(rec)
    reply[n] = wake(id, r, read_run(runtexts[n]), tonumber(ARGV[2 * n + 1]))
    writes[#writes + 1] = id
    writes[#writes + 1] = write_record(r)
  end
end
in_pieces('HSET', jobs, writes)
return reply

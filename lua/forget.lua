-- forget: jobs that Postgres does not know leave Redis, unless a worker holds them or their outcome is under way.
--
-- KEYS    life jobs runs due keys windows outcomes cancels lanes behind, ready: the four streams, shares ring
-- ARGV    token    the relay's token for this queue
--         epoch    the life of Redis that it believes in
--         …        the jobs' ids
-- Reply   {ok, how many went, then the ids of live direct jobs among them}, or {stale}, {epoch}
-- Cost    O(jobs)
-- uses lib/record.lua lib/place.lua lib/turns.lua
local life, jobs, runs, due, keys, windows, outcomes, cancels, lanes, behind,
  ready0, ready1, ready2, ready3, shares, ring = unpack(KEYS)
local token, epoch = unpack(ARGV, 1, 2)

local known = redis.call('HMGET', life, 'fence', 'epoch')
if known[2] ~= epoch then return { 'epoch' } end
if tonumber(token) < tonumber(known[1] or 0) then return { 'stale' } end
even_when_full(life)
local q = {
  life = life, jobs = jobs, runs = runs, due = due, keys = keys, windows = windows, outcomes = outcomes,
  cancels = cancels, lanes = lanes, behind = behind, ready = { ready0, ready1, ready2, ready3 },
  shares = shares, ring = ring,
}

-- Direct jobs have no row and are nobody's ghosts; held ones end by themselves.
local function is_ghost(id, rec)
  if not rec then return true end
  if is_tombstone(rec) then return not is_placed(q, id, rec) end
  local r, run = read_record(rec), read_run(redis.call('HGET', runs, id))
  if has(r.flags, 'd') then return false end
  if r.entry == '-' or run.entry ~= r.entry then return true end
  local stream = stream_of(q, r)
  local pending = of_group(redis.pcall('XPENDING', stream, 'workers', r.entry, r.entry, 1))
  return not pending[1] or pending[1][3] >= run.lease
end

local gone, reply = 0, { 'ok', 0 }
for i = 3, #ARGV do
  local rec = redis.call('HGET', jobs, ARGV[i])
  if is_ghost(ARGV[i], rec) then
    forget(q, ARGV[i], rec)
    gone = gone + 1
  elseif not is_tombstone(rec) and has(read_record(rec).flags, 'd') then
    reply[#reply + 1] = ARGV[i]
  end
end
reply[2] = gone
if q.joined then prime(q) end
return reply

-- permit: how what the limiter knows of a job is written and read.
--
-- held[id]     state start consumer queue seq since at LF wants                                           (a permit)
--     state    h: its attempt runs. r: what it waits for is reserved, until it asks. x: its lease lapsed while it ran
--     start    of the attempt, or 0; consumer: who runs it, or has told it to come
--     seq      its place in a line before, or 0: it never waited
--     since at ms of Redis time: when it was given, and from when a reserved one may begin
-- tickets[id]  seq queue moves LF where LF wants
--     moves    how often it went from one line to another
--     where    the limit key in whose line it stands; empty: it stands in none and was told to come
-- wants        a line each: `l weight most 0 name key`, or `r count period burst name key`. In a permit the weight is
--              what it really takes
-- uses lib/record.lua

local function read_wants(text)
  local wants = {}
  for kind, a, b, c, name, key in string.gmatch(text, '(%a) (%d+) (%d+) (%d+) (%S+) ([^\n]*)\n') do
    wants[#wants + 1] = {
      kind = kind, a = tonumber(a), b = tonumber(b), c = tonumber(c), name = name, key = key, takes = tonumber(a),
    }
  end
  return wants
end

-- What a permit holds of them is told with what each takes.
local function write_wants(wants, taken)
  local lines = {}
  for _, w in ipairs(wants) do
    local a = taken and w.kind == 'l' and w.takes or w.a
    lines[#lines + 1] = table.concat({ w.kind, a, w.b, w.c, w.name, w.key }, ' ') .. '\n'
  end
  return table.concat(lines)
end

local function read_permit(text)
  local state, start, consumer, queue, seq, since, at, wants =
    string.match(text or '', '^(%a) (%d+) (%S+) (%S+) (%d+) (%d+) (%d+)\n(.*)$')
  if not state then return nil end
  return {
    state = state, start = tonumber(start), consumer = consumer, queue = queue, seq = tonumber(seq),
    since = tonumber(since), at = tonumber(at), wants = read_wants(wants),
  }
end

local function write_permit(p)
  return table.concat({ p.state, p.start, p.consumer, p.queue, digits(p.seq), digits(p.since), digits(p.at) }, ' ')
    .. '\n' .. write_wants(p.wants, true)
end

local function read_ticket(text)
  local seq, queue, moves, where, wants = string.match(text or '', '^(%d+) (%S+) (%d+)\n([^\n]*)\n(.*)$')
  if not seq then return nil end
  return { seq = tonumber(seq), queue = queue, moves = tonumber(moves), where = where, wants = read_wants(wants) }
end

local function write_ticket(t)
  return digits(t.seq) .. ' ' .. t.queue .. ' ' .. t.moves .. '\n' .. t.where .. '\n' .. write_wants(t.wants, false)
end

-- wake: those who waited longest get what is free. What is found for a job is reserved before it is told.
-- uses lib/record.lua lib/permit.lua lib/line.lua lib/limit.lua

-- Who was sent from line to line so often that it might never find all its limits free at once is waited for, one at
-- a time and for so long, in ms: others leave it what it wants.
local PATIENCE, MOVES = 30000, 2

local function tell(q, queue, id, delay)
  local w = #q.woken
  q.woken[w + 1], q.woken[w + 2], q.woken[w + 3] = queue, id, delay
end

local function call_up(q, id, t, delay)
  leave(q, id, t)
  redis.call('HDEL', q.tickets, id)
  reserve(q, id, { consumer = q.consumer, queue = t.queue, seq = t.seq, wants = t.wants }, delay)
  tell(q, t.queue, id, delay)
end

-- It waits for another key than the one in whose line it stood.
local function move(q, id, t, key)
  leave(q, id, t)
  t.moves = t.moves + 1
  join(q, id, t, key)
  if t.moves >= MOVES and not q.patient then
    t.moves = 0
    redis.call('HSET', q.tickets, id, write_ticket(t))
    redis.call('HSET', q.life, 'patient', id .. ' ' .. digits(q.now + PATIENCE))
    wait_for_one(q, id, t)
    for _, w in ipairs(t.wants) do look_at(q, w.key, q.now + PATIENCE) end
  end
end

local function serve_patient(q)
  local patient = q.patient
  if not patient then return end
  local delay = weigh(q, patient.id, 0, patient.ticket.wants, false)
  if delay then
    call_up(q, patient.id, patient.ticket, delay)
    q.room = q.room - 1
  end
end

local function wake_line(q, key)
  while true do
    local head = head_of(q, key)
    if not head then return end
    if q.room <= 0 then
      look_at(q, key, q.now)
      return
    end
    q.room = q.room - 1
    local t = read_ticket(redis.call('HGET', q.tickets, head.id))
    if not t or t.where ~= key or t.seq ~= head.seq then
      leave(q, head.id, { queue = head.queue, seq = head.seq, where = key })
      if not t then tell(q, head.queue, head.id, 0) end -- its ticket was lost: it asks anew
    else
      local delay, blocked, wait = weigh(q, head.id, t.seq, t.wants, false)
      if delay then
        call_up(q, head.id, t, delay)
      else
        if wait then look_at(q, blocked, q.now + wait - AHEAD) end
        if blocked == key then return end
        move(q, head.id, t, blocked)
      end
    end
  end
end

-- The lines of all keys of which something became free. Answers three values each: queue, job id, ms until it comes.
local function wake(q, consumer)
  q.consumer = consumer
  serve_patient(q)
  for _, key in ipairs(q.touched) do wake_line(q, key) end
  return q.woken
end

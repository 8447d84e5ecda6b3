-- Stands before every script.
--
-- A project's state, all under one hash tag:
--   window       sorted set: request id -> business time of its admission
--   reserved     hash: request id -> packed {owner, day, epoch, worst case, record}
--   leases       sorted set: request id -> end of its reservation's lease
--   budget       hash: DAY:spent, DAY:epoch (of spent), DAY:token, DAY:reserved, DAY:running
--   generation   number of the cache generation, 0 when missing
--   claim:*      hash: f(ingerprint), r(equest id), then l(ease) while running, or k(ept at) and
--                a(nswer) or n(ote of a call that was cut)
--   answer:*     hash: g(eneration), x (expiry, business time), a(nswer)
--   finished:*   the call was settled or released some minutes ago
-- Leases are in this server's time. Every script may be repeated: its second run finds its own traces.

local CLAIM_SECONDS, RESERVATION_SECONDS, WINDOW_SECONDS, KEPT_SECONDS = 15, 60, 3600, 3600
local GARBAGE_SECONDS = 7200 -- far beyond what business time can need: the clock of rules is not this one
local FINISHED_SECONDS = 600

local function server_time()
  local time = redis.call('TIME')
  return tonumber(time[1]) + tonumber(time[2]) / 1000000
end

-- Lua's own tostring rounds to 14 digits.
local function exact(number)
  return string.format('%.17g', number)
end

local function minus(amount)
  return string.format('%.0f', 0 - tonumber(amount))
end

local function write_claim(key, fingerprint, request, at)
  redis.call('HSET', key, 'f', fingerprint, 'r', request, 'l', exact(at + CLAIM_SECONDS))
  redis.call('HDEL', key, 'k', 'a', 'n')
  redis.call('EXPIRE', key, GARBAGE_SECONDS)
end

-- Deletes a running claim if this call holds it.
local function drop_claim(key, request)
  local held = redis.call('HMGET', key, 'r', 'l')
  if held[1] == request and held[2] then
    redis.call('DEL', key)
  end
end

local function reserve(reserved, leases, budget, request, terms, at)
  redis.call('HSET', reserved, request, cmsgpack.pack(terms))
  redis.call('ZADD', leases, exact(at + RESERVATION_SECONDS), request)
  redis.call('HINCRBY', budget, terms[2] .. ':reserved', terms[4])
  redis.call('HINCRBY', budget, terms[2] .. ':running', 1)
end

-- Removes a reservation; its day, or nil when there was none.
local function drop_reservation(reserved, leases, budget, request)
  local packed = redis.call('HGET', reserved, request)
  if not packed then
    return nil
  end
  local terms = cmsgpack.unpack(packed)
  local day = terms[2]
  redis.call('HDEL', reserved, request)
  redis.call('ZREM', leases, request)
  if redis.call('HINCRBY', budget, day .. ':running', -1) <= 0 then
    redis.call('HDEL', budget, day .. ':running', day .. ':reserved')
  else
    redis.call('HINCRBY', budget, day .. ':reserved', minus(terms[4]))
  end
  return day
end

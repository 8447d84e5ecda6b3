-- Admission: claim, window, cached answer, budget. All checks come before the first write.
-- KEYS: see below. Those of parts a call does without are placeholders, and their arguments are empty.
-- ARGV: see below. `deadline`: server time after which nobody waits for this decision any more.
-- Replies a verdict, its detail, and the server's time.
local window, reserved, leases, budget, generation = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local finished, claim, answer = KEYS[6], KEYS[7], KEYS[8]
local request, owner, now, deadline, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5])
local fingerprint, cacheable, day, epoch, cap = ARGV[6], ARGV[7] ~= '', ARGV[8], ARGV[9], tonumber(ARGV[10])
local worst_case, record, new_token = ARGV[11], ARGV[12], ARGV[13]
-- ARGV[14]: not empty when the caller waited for this key; ARGV[15]: not empty when the cap is strict

local at = server_time()
local function verdict(word, detail)
  return {word, detail or '', exact(at)}
end

if deadline ~= '' and at > tonumber(deadline) then
  return verdict('late')
end

if fingerprint ~= '' then
  local held = redis.call('HMGET', claim, 'f', 'r', 'l', 'k', 'n')
  if held[1] then
    local same = held[1] == fingerprint
    if held[4] then
      if now < tonumber(held[4]) + KEPT_SECONDS then
        if not same then
          return verdict('mismatch')
        end
        if not held[5] then
          return verdict('kept', redis.call('HGET', claim, 'a'))
        end
        if ARGV[14] ~= '' then
          return verdict('noted', held[5])
        end
      end
    elseif held[2] ~= request and tonumber(held[3]) > at then
      return verdict(same and 'busy' or 'mismatch')
    end
  end
end

local horizon = now - WINDOW_SECONDS
local counted = limit and redis.call('ZSCORE', window, request)
if limit and not counted then
  if limit <= 0 then
    return verdict('limit', tostring(WINDOW_SECONDS))
  end
  local size = redis.call('ZCOUNT', window, '(' .. exact(horizon), '+inf')
  if size >= limit then
    local decisive = redis.call(
      'ZRANGEBYSCORE', window, '(' .. exact(horizon), '+inf', 'WITHSCORES', 'LIMIT', size - limit, 1)
    local seconds = math.ceil(tonumber(decisive[2]) + WINDOW_SECONDS - now)
    return verdict('limit', string.format('%d', math.max(1, seconds)))
  end
end

local hit = false
if cacheable then
  local kept = redis.call('HMGET', answer, 'g', 'x')
  hit = kept[1] and kept[1] == (redis.call('GET', generation) or '0') and now < tonumber(kept[2])
end

local reserves = day ~= '' and not hit and redis.call('HEXISTS', reserved, request) == 0
if reserves and cap then
  local held = redis.call(
    'HMGET', budget, day .. ':spent', day .. ':epoch', day .. ':token', day .. ':reserved', day .. ':running')
  if not held[1] or held[2] ~= epoch then
    if not held[3] then
      redis.call('HSET', budget, day .. ':token', new_token)
    end
    local traced = (held[1] or held[3] or held[5]) and '1' or '0'
    return verdict('unknown', traced .. (held[3] or new_token))
  end
  local spent = tonumber(held[1])
  if spent >= cap then
    return verdict('spent')
  end
  local fits = spent + tonumber(held[4] or '0') + tonumber(worst_case) <= cap
  if not fits and (tonumber(held[5] or '0') > 0 or ARGV[15] ~= '') then
    return verdict('held')
  end
end

-- The first write must be one that Redis refuses when its memory is full: after another it refuses none.
if limit and not counted then
  redis.call('ZADD', window, ARGV[3], request)
  redis.call('EXPIRE', window, GARBAGE_SECONDS)
  local expired = redis.call('ZCOUNT', window, '-inf', exact(horizon))
  if expired > 0 then
    -- A bounded number, so that no admission takes long.
    redis.call('ZREMRANGEBYRANK', window, 0, math.min(expired, 5000) - 1)
  end
end
if reserves then
  reserve(reserved, leases, budget, request, {owner, day, epoch, worst_case, record}, at)
end
if fingerprint ~= '' then
  write_claim(claim, fingerprint, request, at)
end
redis.call('DEL', finished)
return hit and verdict('cached', redis.call('HGET', answer, 'a')) or verdict('admitted', redis.call('GET', generation) or '0')

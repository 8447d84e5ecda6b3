-- The day's total as the database knows it, if no call was settled since the token was given.
-- KEYS: budget   ARGV: day, epoch, token, spent, the oldest day whose total is kept
local budget, day = KEYS[1], ARGV[1]
if redis.call('HGET', budget, day .. ':token') ~= ARGV[3] then
  return 0
end
redis.call('HDEL', budget, day .. ':token')
redis.call('HSET', budget, day .. ':spent', ARGV[4], day .. ':epoch', ARGV[2])
local fields = redis.call('HKEYS', budget)
for _, field in ipairs(fields) do
  local other = string.match(field, '^(.*):[a-z]+$')
  if other < ARGV[5] and redis.call('HEXISTS', budget, other .. ':running') == 0 then
    redis.call('HDEL', budget, field)
  end
end
return 1

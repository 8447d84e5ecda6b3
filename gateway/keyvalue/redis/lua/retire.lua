-- Takes projects without reservations off the list, unless somebody announced them lately.
-- KEYS: the list   ARGV: seconds within which an announcement is believed, projects
local horizon = server_time() - tonumber(ARGV[1])
for index = 2, #ARGV do
  local announced = redis.call('ZSCORE', KEYS[1], ARGV[index])
  if announced and tonumber(announced) < horizon then
    redis.call('ZREM', KEYS[1], ARGV[index])
  end
end
return 1

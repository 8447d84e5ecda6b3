-- Notes that projects may have reservations from now on.
-- KEYS: the list of such projects, a sorted set by server time   ARGV: projects
local at = exact(server_time())
for _, project in ipairs(ARGV) do
  redis.call('ZADD', KEYS[1], at, project)
end
return 1

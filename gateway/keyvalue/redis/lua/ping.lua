-- The server's time.
return exact(server_time())

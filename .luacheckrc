-- What the scripts may use: Lua 5.1 as Redis runs it, and the functions of the libraries that they name.
std = "lua51"
read_globals = { "KEYS", "ARGV", "redis", "cjson", "cmsgpack", "bit", "struct" }
max_line_length = 120
ignore = {
   "213", -- a loop variable that only counts
   "542", -- an empty branch with a comment in it
}

local function lines_of(file)
   local text = {}
   for line in io.lines(file) do text[#text + 1] = line end
   return text
end

local function functions_of(library)
   local names = {}
   for _, line in ipairs(lines_of("lua/" .. library)) do
      names[#names + 1] = line:match("^local function ([%w_]+)") or line:match("^local ([%w_]+) =")
   end
   return names
end

-- The functions of the libraries of a file, and of theirs.
local function known_in(path, known)
   for _, line in ipairs(lines_of(path)) do
      for library in (line:match("^%-%- uses (.*)") or ""):gmatch("lib/[%w_]+%.lua") do
         known_in("lua/" .. library, known)
         for _, name in ipairs(functions_of(library)) do known[#known + 1] = name end
      end
   end
   return known
end

-- The loader puts a library's text in front of the script, so what is local there is known here.
for path in io.popen("ls lua/*.lua lua/lib/*.lua 2>/dev/null"):lines() do
   files[path] = { read_globals = known_in(path, {}) }
end

for path in io.popen("ls lua/lib/*.lua 2>/dev/null"):lines() do
   files[path].ignore = { "211" } -- a library's functions are used by the scripts
end

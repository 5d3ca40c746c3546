--- The server's program, run for something else than serving.
local M = {}

local TIMEOUT_MS = 120000

--- The program that the server is configured to be: its path, or nil and what is wrong.
---@return string?
---@return string?
function M.find()
  local cmd = vim.lsp.config.stet.cmd
  if type(cmd) ~= 'table' then
    return nil, 'cmd is a function: its program is not known'
  end
  local program = vim.fn.exepath(cmd[1])
  if program == '' then
    return nil, cmd[1] .. ' is not an executable on $PATH'
  end
  return program
end

---@return vim.SystemOpts
local function options()
  return { text = true, timeout = TIMEOUT_MS, env = vim.lsp.config.stet.cmd_env }
end

--- Run it and wait; nil if it can't be run.
---@param program string
---@param args string[]
---@return vim.SystemCompleted?
function M.run(program, args)
  local ok, job = pcall(vim.system, vim.list_extend({ program }, args), options())
  return ok and job:wait() or nil
end

---@param result? vim.SystemCompleted
---@return table?
local function decoded(result)
  local ok, value = pcall(vim.json.decode, result and result.stdout or '', { luanil = { object = true } })
  return ok and type(value) == 'table' and value or nil
end

--- What it prints as JSON, whatever its exit code; or nil and the last line of its errors.
---@param program string
---@param args string[]
---@return table?
---@return string
function M.json(program, args)
  local result = M.run(program, args)
  return decoded(result), vim.trim(result and result.stderr or ''):match('[^\n]*$')
end

--- The same, without waiting.
---@param program string
---@param args string[]
---@param on_answer fun(value?: table, failure: string)
function M.json_later(program, args, on_answer)
  vim.system(
    vim.list_extend({ program }, args),
    options(),
    vim.schedule_wrap(function(result)
      on_answer(decoded(result), vim.trim(result.stderr or ''):match('[^\n]*$'))
    end)
  )
end

return M

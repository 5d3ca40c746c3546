--- `:checkhealth stet`: each thing that a rewrite needs, and what to do where it is missing.
local M = {}

local health = vim.health
local TIMEOUT_MS = 10000

--- Run the server's program as the server is run; nil if it can't be.
---@param program string
---@param args string[]
---@return vim.SystemCompleted?
local function run(program, args)
  local opts = { text = true, timeout = TIMEOUT_MS, env = vim.lsp.config.stet.cmd_env }
  local ok, job = pcall(vim.system, vim.list_extend({ program }, args), opts)
  return ok and job:wait() or nil
end

--- What the program prints as JSON, whatever its exit code; nil if it doesn't.
---@param program string
---@param args string[]
---@return table?
local function json_of(program, args)
  local result = run(program, args)
  local ok, value = pcall(vim.json.decode, result and result.stdout or '', { luanil = { object = true } })
  if ok and type(value) == 'table' then
    return value
  end
  health.error(('stet %s gave no answer'):format(table.concat(args, ' ')), {
    vim.trim(result and result.stderr or '') .. ' (run it in a terminal to see more)',
  })
end

local function check_neovim()
  if vim.fn.has('nvim-0.11') == 1 then
    health.ok('Neovim ' .. tostring(vim.version()))
  else
    health.error('Neovim 0.11 or newer is needed, this is ' .. tostring(vim.version()))
  end
  if vim.lsp.is_enabled and not vim.lsp.is_enabled('stet') then
    health.warn('the language server is not enabled', { "put vim.lsp.enable('stet') into your init.lua" })
  end
end

--- The program behind the configured cmd, if it can be run.
---@return string?
local function check_command()
  local cmd = vim.lsp.config.stet.cmd
  if type(cmd) ~= 'table' then
    health.info('cmd is a function: its program is not checked')
    return nil
  end
  local program = vim.fn.exepath(cmd[1])
  if program == '' then
    health.error(cmd[1] .. ' is not an executable on $PATH', {
      'install it: pipx install stet-lsp',
      "or say where it is: vim.lsp.config('stet', { cmd = { '/path/to/stet', 'lsp' } })",
    })
    return nil
  end
  local result = run(program, { '--version' })
  if not result or result.code ~= 0 then
    health.error(program .. ' --version failed', { vim.trim(result and result.stderr or '') })
    return nil
  end
  health.ok(('%s (%s)'):format(program, vim.trim(result.stdout)))
  return program
end

---@param program string
local function check_engine(program)
  local engine = json_of(program, { 'engine', 'status', '--json' })
  if not engine then
    return
  end
  if engine.status == 'failed' then
    health.error('the engine failed: ' .. engine.error, { 'stet engine stop', 'its log: ' .. engine.log })
  elseif engine.pid then
    local what = ('engine %s: %s on %s'):format(engine.status, engine.model, engine.device)
    health.ok(('%s, %d active and %d waiting (pid %d)'):format(what, engine.n_active, engine.n_waiting, engine.pid))
  else
    health.ok('the engine is not running: the first rewrite starts it')
  end
end

---@param program string
local function check_models(program)
  local models = json_of(program, { 'models', 'list', '--json' })
  if not models then
    return
  end
  local names = vim.tbl_map(function(fetched)
    return fetched.model
  end, models.fetched)
  if #names > 0 then
    health.ok('models fetched: ' .. table.concat(names, ', '))
  else
    health.warn('no model is fetched yet', { 'stet models fetch small' })
  end
end

--- stet/reject of a job that nobody knows does nothing, and is answered: a round trip.
local function check_servers()
  local clients = vim.lsp.get_clients({ name = 'stet' })
  if #clients == 0 then
    health.info('no buffer has a language server yet: open a source file and check again')
  end
  for _, client in ipairs(clients) do
    local buf = vim.tbl_keys(client.attached_buffers)[1] or vim.api.nvim_get_current_buf()
    local start = vim.uv.hrtime()
    local answer, failure = client:request_sync('stet/reject', { jobId = 'checkhealth' }, TIMEOUT_MS, buf)
    if answer and not answer.err then
      local version = vim.tbl_get(client, 'server_info', 'version') or 'of unknown version'
      local ms = (vim.uv.hrtime() - start) / 1e6
      health.ok(('server %s (client %d) answered in %.0f ms'):format(version, client.id, ms))
    else
      local reason = failure or answer and answer.err.message
      health.error(('the server (client %d) does not answer: %s'):format(client.id, reason), { 'see ' .. vim.lsp.log.get_filename() })
    end
  end
end

function M.check()
  health.start('stet')
  check_neovim()
  local program = check_command()
  if program then
    check_engine(program)
    check_models(program)
  end
  check_servers()
end

return M

--- `:checkhealth stet`: each thing that a rewrite needs, and what to do where it is missing.
local program = require('stet.program')

local M = {}

local health = vim.health
local TIMEOUT_MS = 10000

--- What the program prints as JSON; nil, and said so, if it doesn't.
---@param path string
---@param args string[]
---@return table?
local function json_of(path, args)
  local value, failure = program.json(path, args)
  if not value then
    health.error(
      ('stet %s gave no answer'):format(table.concat(args, ' ')),
      { failure .. ' (run it in a terminal to see more)' }
    )
  end
  return value
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
  local path, problem = program.find()
  if not path then
    health.error(problem --[[@as string]], {
      'install it: pipx install stet-lsp',
      "or say where it is: vim.lsp.config('stet', { cmd = { '/path/to/stet', 'lsp' } })",
    })
    return nil
  end
  local result = program.run(path, { '--version' })
  if not result or result.code ~= 0 then
    health.error(path .. ' --version failed', { vim.trim(result and result.stderr or '') })
    return nil
  end
  health.ok(('%s (%s)'):format(path, vim.trim(result.stdout)))
  return path
end

---@param path string
local function check_engine(path)
  local engine = json_of(path, { 'engine', 'status', '--json' })
  if not engine then
    return
  end
  if engine.status == 'failed' then
    health.error('the engine failed: ' .. engine.error, { 'stet engine stop', 'its log: ' .. engine.log })
  elseif engine.pid then
    local what = ('engine %s: %s in %s on %s'):format(engine.status, engine.model, engine.dtype, engine.device)
    health.ok(('%s, %d active and %d waiting (pid %d)'):format(what, engine.n_active, engine.n_waiting, engine.pid))
    if engine.trouble then
      health.warn(engine.trouble)
    end
  else
    health.ok('the engine is not running: the first rewrite starts it')
  end
end

--- The server that rewrites go to instead of an engine of this machine.
---@param url string
local function check_url(url)
  local what = url .. ' (server.url)'
  if vim.fn.executable('curl') == 0 then
    health.info('rewrites go to ' .. what)
    return
  end
  local models = url:gsub('/+$', ''):gsub('/v1$', '') .. '/v1/models'
  local result = vim.system({ 'curl', '-sS', '--max-time', '10', models }, { text = true }):wait()
  if result.code == 0 then
    health.ok('rewrites go to ' .. what .. ', which answers')
  else
    health.error(what .. " can't be reached: " .. vim.trim(result.stderr), { 'start the server, or check its URL' })
  end
end

---@param path string
local function check_models(path)
  local models = json_of(path, { 'models', 'list', '--json' })
  if not models then
    return
  end
  local names = vim.tbl_map(function(fetched)
    return fetched.model
  end, models.fetched)
  if #names > 0 then
    health.ok(('models fetched: %s, in %s'):format(table.concat(names, ', '), models.models_dir))
  else
    health.warn('no model is fetched yet', { ':StetSetup' })
  end
end

--- Memory and device, as the choice of a model sees them.
---@param path string
local function check_memory(path)
  local fit = json_of(path, { 'models', 'fit', '--json' })
  for _, preset in ipairs(fit and fit.presets or {}) do
    local is_recommended = preset.preset == fit.recommended
    health.info(
      ('%s on %s: %s%s'):format(preset.preset, preset.device, preset.why, is_recommended and ' (recommended)' or '')
    )
  end
end

--- What was learned: reading it opens the database.
---@param path string
local function check_database(path)
  local stats = json_of(path, { 'stats', '--json' })
  if stats then
    local n = vim.tbl_count(stats.targets)
    health.ok(n == 0 and 'the database has nothing learned yet' or ('the database knows %d models'):format(n))
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
      health.error(
        ('the server (client %d) does not answer: %s'):format(client.id, reason),
        { 'see ' .. vim.lsp.log.get_filename() }
      )
    end
  end
end

function M.check()
  health.start('stet')
  check_neovim()
  local path = check_command()
  local url = vim.tbl_get(vim.lsp.config.stet, 'init_options', 'server', 'url')
  if type(url) == 'string' and url:find('^https?://') then
    check_url(url)
  elseif path then
    check_engine(path)
    check_models(path)
    check_memory(path)
    check_database(path)
  end
  check_servers()
end

return M

--- What is to be done: the user's words, or a recipe of the server.
local say = require('stet.say')

local M = {}

--- The recipe that is about diagnostics.
M.FIX = 'fix-diagnostic'

---@class stet.Recipe
---@field id string
---@field title string
---@field kind 'builtin'|'user'|'project'

--- The words that the user types; nothing if they are left by Escape. Earlier ones are in the history of input().
---@param prompt string
---@param on_task fun(task: stet.Task)
---@param on_cancel? fun()
function M.instruction(prompt, on_task, on_cancel)
  vim.ui.input({ prompt = prompt }, function(instruction)
    if instruction and instruction:find('%S') then
      on_task({ instruction = instruction })
    elseif on_cancel then
      on_cancel()
    end
  end)
end

--- Without the one that is about diagnostics: `:StetFix` has them.
---@param recipes stet.Recipe[]
---@return stet.Recipe[]
function M.without_fix(recipes)
  return vim.tbl_filter(function(recipe)
    return recipe.id ~= M.FIX
  end, recipes)
end

--- Those that suit the buffer; none from a server that doesn't know any.
---@param target { client: vim.lsp.Client, buf: integer }
---@param on_recipes fun(recipes: stet.Recipe[])
local function recipes_of(target, on_recipes)
  local params = { textDocument = { uri = vim.uri_from_bufnr(target.buf) } }
  target.client:request('stet/recipes', params, function(err, answer)
    on_recipes(M.without_fix(err and {} or answer.recipes))
  end, target.buf)
end

--- What the words of a command mean: a recipe if they are the id of one, else they are the instruction.
---@param target { client: vim.lsp.Client, buf: integer }
---@param words string
---@param on_task fun(task: stet.Task)
function M.task_of(target, words, on_task)
  if words:find('%s') then
    on_task({ instruction = words })
    return
  end
  recipes_of(target, function(recipes)
    local is_recipe = vim.iter(recipes):any(function(recipe)
      return recipe.id == words
    end)
    if words == M.FIX then
      say.warn('use :StetFix')
    elseif not is_recipe and (words:find('^user%.') or words:find('^project%.')) then
      say.error('there is no recipe ' .. words .. ' here (:StetRecipe lists them)')
    else
      on_task(is_recipe and { recipe = words } or { instruction = words })
    end
  end)
end

--- Let the user pick a recipe from a list.
---@param target { client: vim.lsp.Client, buf: integer }
---@param on_task fun(task: stet.Task)
function M.recipe(target, on_task)
  recipes_of(target, function(recipes)
    if #recipes == 0 then
      say.warn('no recipe suits this buffer')
      return
    end
    local opts = {
      prompt = 'Stet:',
      format_item = function(recipe)
        return recipe.title
      end,
    }
    vim.ui.select(recipes, opts, function(recipe)
      if recipe then
        on_task({ recipe = recipe.id })
      end
    end)
  end)
end

return M

"""Names of tools and of their arguments in the harnesses that people use -> what they mean here."""

from __future__ import annotations

from functools import cache, lru_cache

_FAMILIES = {
    "shell": "shell bash sh zsh terminal execute exec run command cmd run_command execute_command execute_bash run_shell "
    "run_bash run_shell_command run_terminal_cmd run_in_terminal shell_exec bash_exec local_shell container_exec "
    "console subprocess system process run_process ssh tmux send_keys run_tests docker_exec sandbox_exec run_script "
    "shell_command exec_command powershell",
    "python": "python ipython execute_python run_python python_exec code_interpreter interpreter jupyter execute_ipython_cell "
    "run_code python_repl execute_code repl notebook run_cell code_execution python_interpreter stateful_python eval",
    "javascript": "javascript js node nodejs run_javascript execute_javascript typescript deno bun",
    "read": "read_file read view view_file open_file open cat get_file file_read load_file show_file head tail goto "
    "read_many_files read_text_file read_multiple_files fetch_file read_notebook view_image get_file_contents "
    "download_file less peek stat",
    "write": "write_file write create create_file save_file save put_file file_write new_file overwrite append append_file "
    "append_to_file write_to_file add_file upload_file write_notebook touch set_file update_file file_append fs_write",
    "edit": "str_replace_editor str_replace_based_edit_tool text_editor edit_file edit replace replace_in_file str_replace "
    "insert search_replace multi_edit multiedit insert_line replace_lines edit_notebook notebook_edit "
    "edit_notebook_cell modify_file file_editor editor str_replace_edit search_and_replace insert_edit_into_file "
    "find_and_replace",
    "patch": "apply_patch patch apply_diff git_apply apply_unified_diff diff",
    "delete": "delete_file delete remove remove_file rm unlink delete_path delete_directory rmdir trash",
    "move": "move_file move rename rename_file mv",
    "copy": "copy_file copy cp duplicate",
    "link": "symlink link create_symlink ln make_link",
    "mode": "chmod chown set_permissions",
    "list": "list_dir ls list list_files list_directory dir tree find_files glob find file_search directory_tree list_folder "
    "find_file glob_file_search walk search_files",
    "grep": "grep grep_search search_dir search_file search_in_files ripgrep rg code_search search_code codebase_search file_grep",
    "fetch": "web_fetch fetch browse open_url get_url http_get curl wget http_request request download visit visit_page "
    "url_fetch fetch_url browser browser_navigate navigate goto_url web_browser read_url scrape crawl http get_page "
    "open_page fetch_content",
    "search": "web_search search google search_web bing duckduckgo brave_search search_internet internet_search query "
    "google_search tavily_search serper exa arxiv_search wikipedia",
    "git": "git run_git git_command",
    "submit": "submit final_answer finish answer done complete final submit_answer submit_patch attempt_completion return "
    "task_complete submit_solution finalize respond reply send_message message say output report conclude",
}
_ROLES = {
    "shell": "command cmd commands shell bash script shell_command command_line cmdline keystrokes keys",
    "python": "code python source_code snippet cell program python_code new_source cell_source source_cell",
    "path": "path file file_path filepath filename file_name target_file relative_workspace_path absolute_path notebook_path "
    "directory dir folder dir_path directory_path paths files_to_read file_paths target_directory root "
    "absolute_file_path relative_path uri_path",
    "from": "source src from old_path source_path from_path old_name source_file",
    "to": "destination dst dest to new_path target target_path to_path new_name destination_path link_path link_name",
    "content": "content contents file_text text new_content data body file_content insert_text code_edit insert_content "
    "append_text new_str new_string new_text replace replacement replace_with updated_content value",
    "before": "old_str old_string old_text search_str original find old_content search_text target_content",
    "url": "url urls link href uri address endpoint",
    "query": "query q queries search_query search_term keywords question terms",
    "pattern": "pattern regex glob glob_pattern include exclude file_pattern include_pattern",
    "patch": "patch diff unified_diff input_patch patch_text model_patch",
    "workdir": "cwd workdir working_directory work_dir working_dir exec_dir",
    "environment": "env environment environ env_vars",
    "files": "files edits changes documents",
    "prose": "answer message comment note thought reasoning explanation description summary final_answer justification "
    "rationale response result output title reply notes remark thinking",
}
_VERBS = {
    "view": "read", "read": "read", "open": "read", "cat": "read", "show": "read", "create": "write", "write": "write",
    "append": "write", "save": "write", "overwrite": "write", "str_replace": "edit", "insert": "edit", "replace": "edit",
    "edit": "edit", "undo_edit": "edit", "update": "edit", "delete": "delete", "remove": "delete", "list": "list", "ls": "list",
    "move": "move", "rename": "move", "copy": "copy", "touch": "write", "add": "write",
}  # fmt: skip
_WORDS = (
    *(("shell", word) for word in ("bash", "shell", "terminal", "command", "exec")),
    *(("python", word) for word in ("python", "jupyter", "notebook")),
    *(("patch", word) for word in ("patch", "diff")),
    *(("delete", word) for word in ("delete", "remove", "unlink")),
    *(("write", word) for word in ("write", "create", "save", "append", "upload", "put", "store", "set")),
    *(("edit", word) for word in ("edit", "replace", "insert", "modify", "update")),
    *(("move", word) for word in ("move", "rename")),
    *(("copy", word) for word in ("copy",)),
    *(("fetch", word) for word in ("fetch", "browse", "browser", "download", "http", "url", "web")),
    *(("list", word) for word in ("list", "dir", "tree", "glob")),
    *(("read", word) for word in ("read", "view", "open", "get", "load", "file", "cat")),
    *(("git", word) for word in ("git",)),
    *(("submit", word) for word in ("submit", "answer", "finish", "final")),
)
_LONGEST = 200
"""Characters of a name that are looked at: its last."""


def plain_name(name: str) -> str:
    """Return a tool's name without its server or namespace, in lower case with underscores.

    Example:
        >>> plain_name("functions.Run-Command"), plain_name("mcp__files__readFile")
        ('run_command', 'read_file')
    """
    return _plain(name[-_LONGEST:])


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    last = name.replace("::", ".").replace("/", ".").replace("__", ".").strip(". ").rpartition(".")[2]
    spaced = "".join("_" + letter if letter.isupper() and last[i - 1 : i].islower() else letter for i, letter in enumerate(last))
    return spaced.replace("-", "_").replace(" ", "_").strip("_").lower()


@cache
def _families() -> dict[str, str]:
    return {name: family for family, names in _FAMILIES.items() for name in names.split()}


@cache
def _roles() -> dict[str, str]:
    return {name: role for role, names in _ROLES.items() for name in names.split()}


def family_of(tool: str) -> str:
    """Return what kind of tool a name stands for; `""` if it tells nothing.

    Example:
        >>> [family_of(name) for name in ("execute_bash", "functions.write_file", "org_file_delete_v2", "weather")]
        ['shell', 'write', 'delete', '']
    """
    return _family(tool[-_LONGEST:])


@lru_cache(maxsize=4096)  # names come back with every call
def _family(tool: str) -> str:
    name = _plain(tool)
    known = _families().get(name)
    if known:
        return known
    words = set(name.split("_"))
    return next((family for family, word in _WORDS if word in words), "")


def family_of_verb(verb: str) -> str:
    """Return the family of a verb that a file tool is given, `""` if it is none."""
    return _VERBS.get(verb.strip().lower(), "")


def role_of(key: str) -> str:
    """Return what an argument of this name holds; `""` if the name tells nothing."""
    return _role(key[-_LONGEST:])


@lru_cache(maxsize=4096)
def _role(key: str) -> str:
    return _roles().get(_plain(key), "")

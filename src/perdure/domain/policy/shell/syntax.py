"""The syntax of a command: every simple command in it, wherever it stands, found by tree-sitter.

Nothing of the tree is trusted beyond what is listed here. A construct that is not known, text that no node covers, and
a here-document whose end the shell could see elsewhere are problems: the command is then at least asked. What was found
is judged all the same, so that a broken end does not hide a destructive beginning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from perdure.domain.policy.shell.evaluation import evaluation_problems
from perdure.domain.policy.shell.gaps import ARGUMENTS, GAP, has_gaps, sign_problem, words_after
from perdure.domain.policy.shell.grammar import parser
from perdure.domain.policy.shell.part import UNKNOWN
from perdure.domain.policy.shell.words import assignment, expanded, has_glob, is_local, text_of, words_of

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 60  # nodes inside each other
MOST = 300  # simple commands

LISTS = frozenset({
    "program", "list", "compound_statement", "subshell", "if_statement", "elif_clause", "else_clause",
    "while_statement", "for_statement", "c_style_for_statement", "do_group", "case_statement", "case_item",
    "negated_command", "test_command",
})  # fmt: skip
EXPRESSIONS = frozenset({
    "string", "concatenation", "expansion", "simple_expansion", "arithmetic_expansion", "binary_expression",
    "unary_expression", "postfix_expression", "parenthesized_expression", "ternary_expression", "subscript",
    "array", "command_name", "heredoc_body", "brace_expression", "translated_string",
})  # fmt: skip
LEAVES = frozenset({
    "word", "raw_string", "ansi_c_string", "number", "variable_name", "special_variable_name", "test_operator",
    "regex", "extglob_pattern", "string_content", "heredoc_content", "comment", "file_descriptor",
})  # fmt: skip
_HEREDOC = ("heredoc_start", "heredoc_body", "heredoc_end", "file_redirect", "file_descriptor")
OUTPUT = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})
_DELIMITER = re.compile(r"""\\?(?:'[\w.-]+'|"[\w.-]+"|[\w.-]+)""")


class SimpleCommand(msgspec.Struct):
    """One simple command: its words with the program first, and what flows in and out."""

    text: str
    words: list[str]
    assigned: list[tuple[str, str]] = []
    writes: list[str] = []
    reads: list[str] = []
    given: str | None = None  # a here-document or here-string that it reads
    fed_by: list[SimpleCommand] = []
    globs: list[str] = []  # words that the shell may expand to names of files


class Syntax:
    """The simple commands of a text, in order, and the problems."""

    def __init__(self, text: str) -> None:
        self.commands: list[SimpleCommand] = []
        self.problems: list[str] = []
        if problem := sign_problem(text):
            self._problem(problem)
        tree = parser().parse(text.encode("utf-8", "replace"))
        root = tree.root_node
        if root.has_error:
            self._problem("its syntax cannot be read")
        self._source = root.text or b""
        if has_gaps(root, self._source):
            self._problem(GAP)
        for problem in evaluation_problems(root):
            self._problem(problem)
        self._walk(root, [], 0)

    def _problem(self, what: str) -> None:
        if what not in self.problems:
            self.problems.append(what)

    def _walk(self, node: Node, fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        """The simple commands below a node; `fed` are those whose output it reads."""
        kind = node.type
        if depth > DEEPEST:
            self._problem("it is nested too deeply")
            return []
        if len(self.commands) >= MOST:
            self._problem(f"it runs more than {MOST} programs")
            return []
        if kind == "command":
            return self._simple(node, node, fed, depth)
        if kind == "redirected_statement":
            return self._redirected(node, fed, depth)
        if kind == "pipeline":
            return self._pipeline(node, fed, depth)
        if kind in ("declaration_command", "unset_command", "variable_assignment", "variable_assignments"):
            return self._declared(node, fed, depth)
        if kind in ("command_substitution", "process_substitution"):
            return self._substitution(node, fed, depth)
        if kind == "function_definition":
            return self._function(node, fed, depth)
        if kind == "ERROR" or kind in LISTS or kind in EXPRESSIONS or kind in ("file_redirect", "herestring_redirect"):
            return self._each(node.named_children, fed, depth)
        if kind not in LEAVES and node.is_named and kind not in ("heredoc_start", "heredoc_end"):
            self._problem(f"it has a part that is not known here ({kind})")
        return []

    def _each(self, nodes: list[Node], fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        return [one for node in nodes for one in self._walk(node, fed, depth + 1)]

    def _function(self, node: Node, fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        """The body of a function. One that runs itself in a pipe or in the background is marked: it may be a bomb."""
        found = self._each(node.named_children[1:], fed, depth)
        name = text_of(node.named_children[0])
        calls = [one for one in found if one.words[:1] == [name]]
        if calls and (len(calls) > 1 or b"&" in (node.text or b"")):
            found.append(self._command(node, ["function", name, "calls-itself"], [], [], depth))
        return found

    def _pipeline(self, node: Node, fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        found: list[SimpleCommand] = []
        for child in node.named_children:
            found.extend(self._walk(child, fed + found, depth + 1))
        return found

    def _substitution(self, node: Node, fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        if (node.text or b"").startswith(b"`") and b"\\" in (node.text or b""):
            self._problem("it has backquotes inside backquotes")
        redirects = [one for one in node.named_children if one.type == "file_redirect"]
        found = self._each([one for one in node.named_children if one not in redirects], fed, depth)
        if redirects:  # $(<file) reads a file without a program
            found.append(self._command(node, ["cat"], redirects, fed, depth))
        return found

    def _redirected(self, node: Node, fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        """A statement with redirections. What follows a here-document on its line belongs to the tree below it."""
        body = node.child_by_field_name("body")
        redirects = [one for one in node.named_children if one != body]
        found: list[SimpleCommand] = []
        if body is not None and body.type == "command":
            found = self._simple(body, node, fed, depth, redirects)
        else:
            if body is not None:
                found = self._walk(body, fed, depth + 1)
            if body is not None and body.type in ("pipeline", "list") and found:
                self._redirect_last(found[-1], redirects, depth)
            else:
                found.append(self._redirect_all(node, found, redirects, fed, depth))
        for one in redirects:
            if one.type == "heredoc_redirect":
                found.extend(self._after_heredoc(one, fed + found, depth))
        return found

    def _redirect_last(self, last: SimpleCommand, redirects: list[Node], depth: int) -> None:
        """Redirections after a pipe belong to its last program, with the words behind them."""
        for one in redirects:
            self._redirect(one, last, depth)
            for word in words_after(one, self._source):
                last.fed_by.extend(self._walk(word, [], depth + 1))
                last.words.extend(words_of(word))
                last.globs.extend(words_of(word) if has_glob(word) else [])

    def _redirect_all(
        self, node: Node, found: list[SimpleCommand], redirects: list[Node], fed: list[SimpleCommand], depth: int
    ) -> SimpleCommand:
        """Redirections of a group, as a part of their own."""
        if any(words_after(one, self._source) for one in redirects):
            self._problem("it has words after a redirection that belong to no program")
        command = self._command(node, [":"], redirects, fed, depth)
        for one in found:
            one.given = one.given or command.given
        return command

    def _after_heredoc(self, node: Node, fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        found: list[SimpleCommand] = []
        for child in node.named_children:
            if child.type not in _HEREDOC and child.type not in ARGUMENTS:
                found.extend(self._walk(child, fed + found, depth + 1))
        return found

    def _simple(
        self, node: Node, whole: Node, fed: list[SimpleCommand], depth: int, redirects: list[Node] | None = None
    ) -> list[SimpleCommand]:
        """A simple command, after the commands of its substitutions."""
        inner: list[SimpleCommand] = []
        words: list[str] = []
        outside = list(redirects or [])
        assigned: list[tuple[str, str]] = []
        globs: list[str] = []
        for child in node.children:
            if child.type in ("file_redirect", "herestring_redirect", "heredoc_redirect"):
                outside.append(child)
                continue
            inner.extend(self._walk(child, fed, depth + 1) if child.type != "variable_assignment" else [])
            if child.type == "variable_assignment":
                inner.extend(self._each(child.named_children, fed, depth))
                assigned.append(assignment(child))
            elif child.type == "$":  # $"..." is translated
                words.append(UNKNOWN)
            elif child.is_named and child.type not in ("comment", "ERROR"):
                words.extend(words_of(child.named_children[0] if child.type == "command_name" else child))
                globs.extend(words_of(child) if has_glob(child) else [])
        for redirect in outside:
            for one in words_after(redirect, self._source):
                inner.extend(self._walk(one, fed, depth + 1))
                words.extend(words_of(one))
                globs.extend(words_of(one) if has_glob(one) else [])
        command = self._command(whole, words, outside, [*fed, *inner], depth)
        command.assigned, command.globs = assigned, globs
        return [*inner, command]

    def _declared(self, node: Node, fed: list[SimpleCommand], depth: int) -> list[SimpleCommand]:
        """`export A=1`, `unset A` and `A=1`: a command of its own, because it changes what later programs see."""
        inner: list[SimpleCommand] = []
        alone = node.type.startswith("variable")
        words = ["export"] if alone else [text_of(node.children[0]) if node.children else "declare"]
        nodes = [node] if node.type == "variable_assignment" else node.named_children
        for child in nodes:
            inner.extend(self._each(child.named_children, fed, depth))
            if child.type == "variable_assignment":
                name, value = assignment(child)
                if not alone or not is_local(name):
                    words.append(f"{name}={value}")
            else:
                inner.extend(self._walk(child, fed, depth + 1) if child.type not in LEAVES else [])
                words.append(text_of(child))
        if alone and len(words) == 1:
            return inner
        return [*inner, self._command(node, words, [], [*fed, *inner], depth)]

    def _command(
        self, node: Node, words: list[str], redirects: list[Node], fed: list[SimpleCommand], depth: int
    ) -> SimpleCommand:
        text = (node.text or b"").decode("utf-8", "replace")
        command = SimpleCommand(text=text, words=words, writes=[], reads=[], fed_by=list(fed))
        for one in redirects:
            self._redirect(one, command, depth)
        self.commands.append(command)
        return command

    def _redirect(self, node: Node, command: SimpleCommand, depth: int) -> None:
        if node.type == "heredoc_redirect":
            self._heredoc(node, command, depth)
            for child in node.named_children:
                if child.type == "file_redirect":
                    self._redirect(child, command, depth)
            return
        sign = next((one.type for one in node.children if not one.is_named), "")
        value = next((one for one in node.named_children if one.type != "file_descriptor"), None)
        if any(one.type == "$" for one in node.children):
            self._problem(GAP)
        if value is None:
            return
        command.fed_by.extend(self._walk(value, [], depth + 1))
        text = text_of(value)
        if node.type == "herestring_redirect":
            command.given = text
        elif sign.endswith("&") and re.fullmatch(r"\d+-?|-", text):
            return
        elif sign in OUTPUT:
            command.writes.append(text)
        else:
            command.reads.append(text)

    def _heredoc(self, node: Node, command: SimpleCommand, depth: int) -> None:
        parts = {one.type: (one.text or b"").decode("utf-8", "replace") for one in node.named_children}
        start, end = parts.get("heredoc_start", ""), parts.get("heredoc_end", "")
        delimiter = start.replace("\\", "").strip("'\"")
        body = next((one for one in node.named_children if one.type == "heredoc_body"), None)
        given = parts.get("heredoc_body", "")
        lines = [line.lstrip("\t") for line in given.split("\n")[:-1]]
        if not _DELIMITER.fullmatch(start) or end.strip() != delimiter or delimiter in lines or not self._whole(node):
            self._problem("the end of a here-document is not certain")
        if body is not None:
            command.fed_by.extend(self._walk(body, [], depth + 1))
            quoted = start != delimiter
            command.given = given if quoted or not re.search(r"[$`\\]", given) else expanded(given)

    def _whole(self, node: Node) -> bool:
        """Whether the end of a here-document is a line of its own."""
        end = next((one for one in node.named_children if one.type == "heredoc_end"), None)
        if end is None:
            return False
        before = self._source.rfind(b"\n", 0, end.start_byte) + 1
        return not self._source[before : end.start_byte].strip(b"\t") and (
            end.end_byte == len(self._source) or self._source[end.end_byte : end.end_byte + 1] == b"\n"
        )

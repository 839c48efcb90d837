"""Reading and building nodes: names and calls in them, expressions from text, parentheses,
comments, names of a function, and the branches of an ``if`` as lists of assignments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from libcst import (
    Add,
    And,
    AnnAssign,
    Arg,
    Assign,
    AssignEqual,
    AssignTarget,
    Attribute,
    AugAssign,
    Await,
    BaseComp,
    BaseExpression,
    BaseNumber,
    BaseSmallStatement,
    BaseStatement,
    BaseSuite,
    BitInvert,
    BooleanOperation,
    Call,
    Comment,
    CSTNode,
    Dict,
    Divide,
    Element,
    Else,
    EmptyLine,
    Equal,
    FloorDivide,
    For,
    FunctionDef,
    GeneratorExp,
    Global,
    GreaterThan,
    GreaterThanEqual,
    If,
    IfExp,
    IndentedBlock,
    Index,
    Lambda,
    LeftParen,
    LessThan,
    LessThanEqual,
    List,
    MaybeSentinel,
    Modulo,
    Multiply,
    Name,
    NamedExpr,
    Nonlocal,
    NotEqual,
    Param,
    ParenthesizedWhitespace,
    PartialParserConfig,
    Power,
    RightParen,
    SimpleStatementLine,
    SimpleStatementSuite,
    SimpleWhitespace,
    Subscript,
    SubscriptElement,
    Subtract,
    TrailingWhitespace,
    Try,
    TryStar,
    Tuple,
    UnaryOperation,
    While,
    Yield,
    matchers,
    parse_expression,
)
from libcst.helpers import parse_template_expression

from graphdoctor.fixes.source.tree import (
    Change,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    names_in,
    need,
    walk,
)

ATOMS = (Name, Attribute, Call, Subscript, BaseNumber)
"""Expressions that need no parentheses beside any operator."""

ARITHMETIC = (Add, Subtract, Multiply, Divide, FloorDivide, Modulo, Power)
ORDERS = (LessThan, LessThanEqual, GreaterThan, GreaterThanEqual, Equal, NotEqual)
_Expression = TypeVar("_Expression", bound=BaseExpression)


def name_set(*nodes: CSTNode) -> set[str]:
    """Return the names of the variables in some nodes."""
    return {name.value for node in nodes for name in names_in(node)}


def set_names(*nodes: CSTNode) -> set[str]:
    """Return the names that assignments in some nodes set or change."""
    single = AugAssign | AnnAssign | NamedExpr | AssignTarget
    parts = (part for node in nodes for part in walk(node))
    return name_set(*(part.target for part in parts if isinstance(part, single)))


def called(node: CSTNode | None) -> str:
    """Return the last name of what a call calls, or an empty string."""
    match node:
        case Call(func=Attribute(attr=Name(value=name)) | Name(value=name)):
            return name
    return ""


def calls_in(*nodes: CSTNode) -> list[Call]:
    """Return the calls in some nodes, in source order."""
    return [call for node in nodes for call in find(node, Call)]


def is_in_place(node: CSTNode) -> bool:
    """Check whether a call changes a tensor, by torch's conventions: ``x.add_(1)``, ``relu(x,
    inplace=True)``, ``out=``.
    """
    name = called(node)
    if not isinstance(node, Call) or (name.endswith("_") and not name.endswith("__")):
        return bool(name)
    return any(
        keyword_of(arg) == "out" or (keyword_of(arg) == "inplace" and dotted(arg.value) != "False")
        for arg in node.args
    )


def index_of(node: CSTNode) -> BaseExpression | None:
    """Return the only index of ``x[index]``; None for slices, several and other nodes."""
    match node:
        case Subscript(slice=[SubscriptElement(slice=Index(value=index, star=None))]):
            return index
    return None


def is_repeatable(node: BaseExpression) -> bool:
    """Check whether it may be written twice: it calls nothing."""
    return not holds(node, Call, Await, Yield, NamedExpr, Lambda, BaseComp)


def expression(template: str, **parts: BaseExpression) -> BaseExpression:
    """Parse a template with copies of nodes in it: ``expression("{a}.sum(dim={b})", a=…, b=…)``."""
    copies = {name: part.deep_clone() for name, part in parts.items() if f"{{{name}}}" in template}
    return parse_template_expression(template, PartialParserConfig(), **copies)


def torch_call(name: str, arguments: Iterable[BaseExpression]) -> Call:
    """Build ``torch.<name>(a, b)``."""
    args = [Arg(without_parentheses(argument)) for argument in arguments]
    return Call(Attribute(Name("torch"), Name(name)), args)


def where(condition: BaseExpression, yes: BaseExpression, no: BaseExpression) -> Call:
    """Build ``torch.where(condition, yes, no)`` with copies, and without ``~`` before the
    condition.
    """
    match condition:
        case UnaryOperation(operator=BitInvert(), expression=opposite):
            return where(opposite, no, yes)
    return torch_call("where", [part.deep_clone() for part in (condition, yes, no)])


def method_call(node: BaseExpression, *names: str) -> BaseExpression:
    """Build ``x.detach().clone()`` of ``x``, ``detach`` and ``clone``, with a copy of ``x``."""
    result = as_operand(node) if names else node.deep_clone()
    for name in names:
        result = Call(Attribute(result, Name(name)))
    return result


def keyword_argument(name: str, value: BaseExpression) -> Arg:
    """Build ``name=value``."""
    nothing = SimpleWhitespace("")
    return Arg(value, Name(name), equal=AssignEqual(nothing, nothing))


def keyword_of(argument: Arg) -> str:
    """Return the keyword that an argument is passed by, or an empty string."""
    return argument.keyword.value if argument.keyword is not None else ""


def by_name(
    arguments: Sequence[Arg], parameters: Sequence[str], reason: str
) -> dict[str, BaseExpression]:
    """Return arguments by the parameter that they are passed for; decline if one isn't certain."""
    values: dict[str, BaseExpression] = {}
    for number, argument in enumerate(arguments):
        name = keyword_of(argument) or "".join(parameters[number : number + 1])
        decline_if(argument.star or name not in parameters or name in values, reason)
        values[name] = argument.value
    return values


def targets_of(node: CSTNode) -> list[BaseExpression]:
    """Return what an assignment sets or changes, as written; nothing for other nodes."""
    if isinstance(node, Assign):
        return [target.target for target in node.targets]
    single = AugAssign | AnnAssign | NamedExpr | For
    return [node.target] if isinstance(node, single) else []


def joined(values: Sequence[BaseExpression]) -> BaseExpression:
    """Build ``a, b``, or return the only value."""
    if len(values) == 1:
        return values[0]
    return Tuple([Element(value) for value in values], lpar=[], rpar=[])


def assigned(target: str | BaseExpression, value: BaseExpression) -> SimpleStatementLine:
    """Build a line that sets a name, or what another target stands for."""
    to = Name(target) if isinstance(target, str) else target
    return SimpleStatementLine([Assign([AssignTarget(to)], value)])  # type: ignore[arg-type]


def alone(small: BaseSmallStatement) -> SimpleStatementLine:
    """Put a small statement on a line of its own."""
    return SimpleStatementLine([small.with_changes(semicolon=MaybeSentinel.DEFAULT)])


def lines_of(body: BaseSuite) -> list[BaseStatement]:
    """Return the lines of a body; what shares the line of its header is one."""
    if isinstance(body, SimpleStatementSuite):
        return [SimpleStatementLine(body.body, trailing_whitespace=body.trailing_whitespace)]
    return [line for line in body.body if isinstance(line, BaseStatement)]


def with_lines(body: BaseSuite, lines: Sequence[BaseStatement]) -> BaseSuite:
    """Put lines in place of a body's."""
    if isinstance(body, IndentedBlock):
        return body.with_changes(body=lines)
    return IndentedBlock(lines)


def above(line: CSTNode) -> Sequence[EmptyLine]:
    """Return the blank lines and comments above a line."""
    return getattr(line, "leading_lines", ())


def after_lines(first: BaseStatement, lines: Iterable[EmptyLine]) -> BaseStatement:
    """Put more blank lines and comments above a line."""
    return first.with_changes(leading_lines=[line.deep_clone() for line in (*lines, *above(first))])


def in_place_of(old: CSTNode, lines: Sequence[BaseStatement]) -> list[BaseStatement]:
    """Put what is above an old line above the first of the new ones."""
    return [after_lines(lines[0], above(old)), *lines[1:]]


def below_new(source: SourceFile, old: CSTNode, new: CSTNode, added: BaseStatement) -> Change:
    """Replace a node, and add a statement above the module's statement that contains it."""
    statement = need(source.path_to(source.tree, old)[-1], BaseStatement)
    leading = above(statement)
    comments = (number for number, line in enumerate(leading) if line.comment is not None)
    spaces = next(comments, len(leading))
    blank = [EmptyLine(indent=False), EmptyLine(indent=False)]
    below = need(after_lines(statement, blank[spaces:]).deep_replace(old, new), BaseStatement)
    if isinstance(added, SimpleStatementLine):
        blank = list(leading[: min(spaces, 1)])
    elif source.tree.body[0] is statement:
        blank = []
    return statement, [after_lines(added, blank), below]


def skipped_while_compiling(
    lines: Sequence[BaseStatement], test: BaseExpression | None = None
) -> If:
    """Put lines under ``if not torch.compiler.is_compiling() and test:``, which doesn't look at the
    test in a graph.
    """
    guard = parse_expression("not torch.compiler.is_compiling()")
    if test is not None:
        is_loose = isinstance(test, IfExp | Lambda | NamedExpr) or matchers.matches(
            test, matchers.BooleanOperation(operator=matchers.Or())
        )
        copy = test.deep_clone()
        guard = BooleanOperation(guard, And(), enclosed(copy) if is_loose else copy)
    return If(guard, IndentedBlock([line.deep_clone() for line in lines]))


def bracketed(node: _Expression) -> _Expression:
    """Put an expression in parentheses; those that it has stay."""
    return node if node.lpar else node.with_changes(lpar=[LeftParen()], rpar=[RightParen()])


def enclosed(node: _Expression, but_not: tuple[type[CSTNode], ...] = ()) -> _Expression:
    """Put an expression in parentheses if it might need them beside an operator."""
    return node if isinstance(node, (*ATOMS, *but_not)) else bracketed(node)


def bare(node: _Expression) -> _Expression:
    """Drop the parentheses around an expression."""
    return node.with_changes(lpar=(), rpar=())


def as_operand(node: BaseExpression) -> BaseExpression:
    """Copy what a method is called on or an operator applied to, in parentheses if it needs
    them.
    """
    copy = node.deep_clone()
    is_whole = isinstance(copy, (*ATOMS, List, Dict))
    part: CSTNode = copy
    while isinstance(part, Attribute | Call | Subscript):
        if isinstance(part, Attribute) and holds(part.dot, ParenthesizedWhitespace):
            is_whole = False
        part = part.func if isinstance(part, Call) else part.value
    return copy if is_whole else bracketed(copy)


def with_parentheses_of(old: BaseExpression, new: _Expression) -> _Expression:
    """Put an expression in another one's parentheses, unless it has its own."""
    if not old.lpar or new.lpar:
        return new
    copy = old.deep_clone()
    return new.with_changes(lpar=copy.lpar, rpar=copy.rpar)


def without_parentheses(node: _Expression) -> _Expression:
    """Drop parentheses to use an expression between commas, unless they contain a comment."""
    is_kept = isinstance(node, Tuple | GeneratorExp) or any(
        map(has_comment, (*node.lpar, *node.rpar))
    )
    return node if is_kept else bare(node)


def has_comment(node: CSTNode) -> bool:
    """Check a node for comments."""
    return holds(node, Comment)


def refuse_comment(node: CSTNode, kept: CSTNode | None = None) -> None:
    """Decline if a node that is replaced contains a comment, unless what is kept of it does."""
    is_lost = has_comment(node) and not (kept is not None and has_comment(kept))
    decline_if(is_lost, "a comment inside it would be lost")


def comments_in(lines: Iterable[EmptyLine | TrailingWhitespace]) -> tuple[str, ...]:
    """Return the comments of lines."""
    return tuple(line.comment.value for line in lines if line.comment is not None)


def refuse_lost_comments(old: Iterable[CSTNode], new: Iterable[CSTNode]) -> None:
    """Decline if a comment of the old nodes isn't in the new ones."""
    had, has = (
        Counter(comment.value for node in nodes for comment in find(node, Comment))
        for nodes in (old, new)
    )
    decline_if(had - has, "a comment would be lost")


class Names:
    """The names of one function, including those of inner functions."""

    def __init__(self, source: SourceFile, function: FunctionDef | Lambda) -> None:
        self.source = source
        self._function = function
        self._taken: set[str] = set()

    @cached_property
    def _used(self) -> list[Name]:
        return list(names_in(self._function))

    def fresh(self, name: str) -> str:
        """Return a name that the file doesn't use and that wasn't returned before."""
        candidate = self.source.free_name(name, self._taken)
        self._taken.add(candidate)
        return candidate

    def named(
        self, test: BaseExpression, *, is_kept: object = False
    ) -> tuple[Name, list[BaseStatement]]:
        """Return a name for a condition, and the line that sets it unless it is a name already.

        ``is_kept``: a name's own value is needed after it is set to another.
        """
        if isinstance(test, Name) and not is_kept:
            return test, []
        name = Name(self.fresh("condition"))
        return name, [assigned(name, test)]

    def is_only_in(self, name: str, nodes: Sequence[CSTNode]) -> bool:
        """Check that nothing outside some nodes uses or declares a name."""
        inside = sum(used.value == name for node in nodes for used in names_in(node))
        return inside == sum(used.value == name for used in self._used)

    def is_read_after(self, name: str, nodes: Sequence[CSTNode]) -> bool:
        """Check whether anything may read a name after some lines before it is set again."""
        if self.is_only_in(name, nodes):
            return False
        inner = find(self._function.body, FunctionDef, Lambda)
        around = self.source.path_to(self._function, nodes[-1])[1:]
        is_unclear = any(isinstance(part, Try | TryStar) for part in around)
        if is_unclear or any(name in name_set(part) for part in inner):
            return True
        set_in = list[CSTNode]()
        for use in self._in_order(name, nodes, around):
            outer = list(self.source.parents(use))
            if any(block in outer for block in set_in) or _is_of_comprehension(use, outer):
                continue
            if not self.source.is_target(use) or isinstance(outer[0], AugAssign):
                return True
            block = next(part for part in outer if isinstance(part, BaseSuite | For))
            block = block.body if isinstance(block, For) else block
            if block in around:
                return False
            set_in.append(block)
        return False

    def _in_order(
        self, name: str, nodes: Sequence[CSTNode], around: Sequence[CSTNode]
    ) -> list[Name]:
        """Return the uses of a name after some lines, in the order in which they run; in a loop,
        those above the lines come after the others.
        """
        source, end = self.source, self.source.position(nodes[-1]).end
        inside = {part for node in nodes for part in walk(node)}
        left = [use for use in self._used if use.value == name and use not in inside]

        def when(use: Name) -> tuple[int, int]:
            small = source.around(use, BaseSmallStatement) if source.is_target(use) else None
            if small is None:
                return source.start(use)
            last = source.position(small).end  # A value is computed before it's set.
            return last.line, last.column

        uses: list[Name] = []
        for region in (*(part for part in around if isinstance(part, For | While)), None):
            here = set(walk(region)) if region is not None else set(left)
            ordered = sorted((use for use in left if use in here), key=when)
            after = [use for use in ordered if source.start(use) >= (end.line, end.column)]
            uses += after
            uses += [use for use in ordered if use not in after] if region is not None else []
            left = [use for use in left if use not in here]
        return uses

    def is_bound_before(self, name: str, node: CSTNode) -> bool:
        """Check whether a name is a parameter, or appears before a node or in its test."""
        start = self.source.start(node)
        names = {param.name.value for param in find(self._function.params, Param)}
        names |= {used.value for used in self._used if self.source.start(used) < start}
        return name in names or (isinstance(node, If) and name in name_set(node.test))

    def is_declared(self, name: str) -> bool:
        """Check whether ``global`` or ``nonlocal`` declares a name."""
        return any(
            item.name.value == name
            for declaration in walk(self._function)
            if isinstance(declaration, Global | Nonlocal)
            for item in declaration.names
        )

    @property
    def is_changing_tensors(self) -> bool:
        """Check whether the function, or one around it, visibly changes something in place."""
        around = [self._function, *self.source.parents(self._function)]
        outermost = [node for node in around if isinstance(node, FunctionDef | Lambda)][-1]
        stored = matchers.AugAssign() | matchers.AssignTarget(target=matchers.Subscript())
        return any(is_in_place(part) or matchers.matches(part, stored) for part in walk(outermost))


def _is_of_comprehension(use: Name, outer: Sequence[CSTNode]) -> bool:
    """Check whether a name is a comprehension's own."""
    comprehensions = [part for part in outer if isinstance(part, BaseComp)]
    return any(use.value in name_set(part.for_in.target) for part in comprehensions)


@dataclass(frozen=True)
class Comments:
    """Comments to keep with a line: ``above`` on their own lines, ``beside`` at its end."""

    above: tuple[str, ...] = ()
    beside: str | None = None

    @classmethod
    def of(cls, above: Iterable[EmptyLine], beside: TrailingWhitespace) -> Comments:
        """Return the comments of a line."""
        return cls(comments_in(above), next(iter(comments_in([beside])), None))

    def joined(self, other: Comments) -> Comments:
        """Return both; if both have one beside the line, the second goes above."""
        if self.beside is not None and other.beside is not None:
            return Comments((*self.above, *other.above, other.beside), self.beside)
        beside = self.beside if self.beside is not None else other.beside
        return Comments((*self.above, *other.above), beside)


def line_of(small: BaseSmallStatement, comments: Comments) -> SimpleStatementLine:
    """Build a line with its comments."""
    leading = [EmptyLine(comment=Comment(text)) for text in comments.above]
    beside = TrailingWhitespace()
    if comments.beside is not None:
        beside = TrailingWhitespace(SimpleWhitespace("  "), Comment(comments.beside))
    return SimpleStatementLine([small], leading_lines=leading, trailing_whitespace=beside)


def is_elif(source: SourceFile, statement: CSTNode) -> bool:
    """Check whether an ``if`` is written as ``elif``."""
    parent = source.parent(statement)
    return isinstance(parent, If) and parent.orelse is statement


def lines_for(
    source: SourceFile,
    statement: If,
    lines: Sequence[BaseStatement],
    *,
    also: Sequence[CSTNode] = (),
) -> list[Change]:
    """Put lines in place of an ``if``, and of lines that go with it; for an ``elif``, as its
    ``else``. Declines if a comment would be lost.
    """
    new: list[BaseStatement] | Else = in_place_of(statement, lines)
    if is_elif(source, statement):
        indent = statement.body.indent if isinstance(statement.body, IndentedBlock) else None
        leading = [line.deep_clone() for line in statement.leading_lines]
        new = Else(IndentedBlock(lines, indent=indent), leading_lines=leading)
    refuse_lost_comments([statement, *also], [new] if isinstance(new, Else) else new)
    return [(statement, new), *((line, ()) for line in also)]

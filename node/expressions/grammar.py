"""The grammar of expressions: the conditions of SQL-92, as JMS has them in selectors, for a parser generator
(LALR, https://lark-parser.readthedocs.io).

Keywords are case-insensitive. Names are those of Java: letters, digits, `_` and `$`. A name may be delimited
by brackets, and by double quotes, which delimit texts in the dialect of OASIS instead.

A path into the body begins with `/` where an operand may stand, and ends where no `/` with a step follows at
once. Where an operator may stand, `/` divides: the lexer knows from the parser which of both may stand.
"""

from __future__ import annotations

from typing import Final

GRAMMAR: Final = r"""
?start: disjunction

?disjunction: conjunction (OR conjunction)*
?conjunction: negation (AND negation)*
?negation: NOT negation        -> inverted
    | condition

?condition: sum
    | sum COMPARISON sum                            -> comparison
    | sum NOT? BETWEEN sum AND sum                  -> between
    | sum NOT? IN "(" sum ("," sum)* ")"            -> member
    | sum NOT? LIKE TEXT (ESCAPE TEXT)?             -> like
    | sum IS NOT? NULL                              -> is_null

?sum: product
    | sum SIGN product                              -> arithmetic
?product: factor
    | product FACTOR factor                         -> arithmetic
?factor: SIGN factor                                -> signed
    | operand

?operand: "(" disjunction ")"
    | TEXT                                          -> text
    | QUOTED                                        -> quoted
    | FRACTION                                      -> fraction
    | INTEGER                                       -> integer
    | HEXADECIMAL                                   -> hexadecimal
    | TRUE                                          -> true
    | FALSE                                         -> false
    | NAME                                          -> name

OR.3: /or(?![\w$.])/i
AND.3: /and(?![\w$.])/i
NOT.3: /not(?![\w$.])/i
BETWEEN.3: /between(?![\w$.])/i
IN.3: /in(?![\w$.])/i
LIKE.3: /like(?![\w$.])/i
ESCAPE.3: /escape(?![\w$.])/i
IS.3: /is(?![\w$.])/i
NULL.3: /null(?![\w$.])/i
TRUE.3: /true(?![\w$.])/i
FALSE.3: /false(?![\w$.])/i

COMPARISON: "<>" | "!=" | "<=" | ">=" | "=" | "<" | ">"
SIGN: "+" | "-"
FACTOR: "*" | "/" | "%"

TEXT: /'(?:[^']|'')*'/
QUOTED: /"(?:[^"]|"")*"/
HEXADECIMAL.2: /0x[0-9a-f]+l?(?![\w$.])/i
FRACTION.2: /(?:[0-9]+\.[0-9]*(?:e[+-]?[0-9]+)?|\.[0-9]+(?:e[+-]?[0-9]+)?|[0-9]+e[+-]?[0-9]+)[df]?(?![\w$.])|[0-9]+[df](?![\w$.])/i
INTEGER.1: /[0-9]+l?(?![\w$.])/i
NAME: /amqp\.(?:message-id|user-id|reply-to-group-id|reply-to|correlation-id|content-type|content-encoding|absolute-expiry-time|creation-time|group-id|group-sequence)(?![\w$.-])|(?:(?![0-9])(?!(?:or|and|not|between|in|like|escape|is|null|true|false)(?![\w$.]))[\w$]+(?:\.(?:[\w$]+|\[[^\[\]]+\]))*)|\[[^\[\]]+\]/i

%ignore /[ \t\r\n\f]+/
"""  # noqa: E501

PATH_STEP: Final = r"""/(?:([\w$]+)|\[([^\[\]]+)\]|"((?:[^"]|"")*)")"""
"""One step of a path: a plain name, or one in brackets or double quotes."""

QUEUE_GRAMMAR: Final = (
    GRAMMAR
    + r"""
%extend operand: PATH                               -> path
    | NAME "(" sum ("," sum)* ")"                   -> call

PATH: /(?:\/(?:[\w$]+|\[[^\[\]]+\]|"(?:[^"]|"")*"))+/
"""
)
"""The grammar of the dialect QUEUE."""

TOKEN: Final = r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|[\w$.]+|[^\s\w$.]"""
"""About one token, to count them before the parser works on them."""

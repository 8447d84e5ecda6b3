"""The files that partners copy: PHP 8.1 and nothing but curl and json, Python 3.10 and nothing but httpx."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.clients.drivers import PHP_CLIENT, PYTHON_CLIENT
from tests.services import require

# What PHP took in after 8.1, as it looks in code.
NEWER = {
    "readonly class (8.2)": r"\breadonly\s+(?:final\s+|abstract\s+)*class\b|\b(?:final|abstract)\s+readonly\b",
    "true, false or null as a type of its own (8.2)": r"\)\s*:\s*(?:true|false|null)\s*[{;=]|[(,]\s*(?:true|false|null)\s+\$",
    "disjunctive types (8.2)": r"\([A-Za-z\\]+\s*&\s*[A-Za-z\\]+\)\s*\|",
    "constants of a trait (8.2)": r"\btrait\b",
    "typed constants (8.3)": r"\bconst\s+\??[A-Za-z\\|]+\s+[A-Za-z_]+\s*=",
    "class constants by a name worked out (8.3)": r"::\s*\{",
    "static variables that are worked out (8.3)": r"\bstatic\s+\$\w+\s*=\s*(?:new\b|\w+\()",
    "property hooks and asymmetric visibility (8.4)": r"\b(?:private|protected)\(set\)|\{\s*(?:get|set)\b",
    "new without parentheses around it (8.4)": r"(?<!\()\bnew\s+\w+\([^()]*\)\s*->",
    "the pipe (8.5)": r"\|>",
    "attributes": r"#\[",
}
SAMPLES = {
    "readonly class (8.2)": ["readonly class A {", "final readonly class A {"],
    "true, false or null as a type of its own (8.2)": ["function f(): true {", "fn (null $a) => 1"],
    "disjunctive types (8.2)": ["function f((A&B)|null $x) {"],
    "constants of a trait (8.2)": ["trait A { const B = 1; }"],
    "typed constants (8.3)": ["private const string A = 1;", "const ?int B = 1;"],
    "class constants by a name worked out (8.3)": ["A::{$b}"],
    "static variables that are worked out (8.3)": ["static $a = f();"],
    "property hooks and asymmetric visibility (8.4)": [
        "public private(set) int $a;",
        "public int $a { get => 1; }",
    ],
    "new without parentheses around it (8.4)": ["$a = new A()->b();"],
    "the pipe (8.5)": ["$a |> f(...)"],
    "attributes": ["#[Override]"],
}
FUNCTIONS_OF_81 = {
    *("array_map", "array_values", "base64_encode", "basename", "bin2hex", "chmod", "clearstatcache", "constant"),
    *("curl_errno", "curl_exec", "curl_getinfo", "curl_init", "curl_setopt", "curl_setopt_array", "curl_strerror"),
    *("defined", "dirname", "explode", "file_get_contents", "file_put_contents", "filemtime", "fileowner", "fileperms"),
    *("filesize", "function_exists", "hash", "hrtime", "implode", "in_array", "intdiv", "is_array", "is_file", "is_link"),
    *("is_readable", "is_string", "json_decode", "json_encode", "max", "mt_rand", "parse_url", "posix_geteuid"),
    *("preg_match", "preg_replace", "random_bytes", "rawurldecode", "rename", "rtrim", "str_starts_with", "strcspn"),
    *("stripos", "strlen", "strtolower", "strtotime", "substr", "sys_get_temp_dir", "tempnam", "time", "unlink"),
    *("usleep",),
}  # fmt: skip
PARTNERS = {
    "pepper": ["encode", "contenuto", "conversazione", "extra", "documenti", "aPezzi", "idempotenza"],
    "pepper_differito": ["encode", "contenuti", "extra", "documenti"],
    "pepper_pratica": ["pratica"],
    "pepper_capacita": ["aggiorna"],
    "pepper_conoscenza_carica": ["nome", "testo"],
    "pepper_conoscenza_elenco": [],
    "pepper_conoscenza_togli": ["id"],
}


def php(*arguments: str) -> str:
    result = subprocess.run(
        [require("php"), *arguments], capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_what_is_newer_would_be_found() -> None:
    for what, samples in SAMPLES.items():
        for sample in samples:
            assert re.search(NEWER[what], sample), sample
    assert NEWER.keys() == SAMPLES.keys()


@pytest.mark.php
def test_the_php_is_of_81() -> None:
    php("-l", str(PHP_CLIENT))
    code = php("-w", str(PHP_CLIENT))  # without comments
    texts_aside = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", "''", code)
    for what, pattern in NEWER.items():
        assert re.search(pattern, texts_aside) is None, what
    called = set(re.findall(r"(?<![\w>:$\\])(?<!function )(?<!new )([a-z_0-9]+)\(", texts_aside))
    words = {
        "function",
        "fn",
        "match",
        "if",
        "for",
        "foreach",
        "catch",
        "array",
        "while",
        "elseif",
        "declare",
    }
    assert called - words - set(PARTNERS) <= FUNCTIONS_OF_81


@pytest.mark.php
def test_the_php_has_the_functions_of_the_contract() -> None:
    told = php(
        "-r",
        f"require '{PHP_CLIENT}';"
        "foreach (get_defined_functions()['user'] as $f) {"
        "  $names = array_map(fn ($p) => $p->name, (new ReflectionFunction($f))->getParameters());"
        "  echo $f, ' ', implode(' ', $names), \"\\n\";"
        "}"
        "echo implode(' ', array_keys(get_defined_constants(true)['user'] ?? []));"
        "foreach (['codice', 'riprovabile'] as $p) new ReflectionProperty('PepperException', $p);",
    )
    assert {line.split(" ")[0]: line.split()[1:] for line in told.splitlines()} == PARTNERS


@pytest.mark.php
def test_the_php_says_nothing_when_it_is_included() -> None:
    assert php("-r", f"require_once '{PHP_CLIENT}'; require_once '{PHP_CLIENT}';") == ""
    assert PHP_CLIENT.read_bytes().startswith(b"<?php\n")
    assert "?>" not in PHP_CLIENT.read_text()


@pytest.mark.php
def test_the_time_a_call_has_is_that_of_the_contract() -> None:
    assert "const SECONDI = 300;" in PHP_CLIENT.read_text()
    assert "CALL_SECONDS = 300.0\n" in PYTHON_CLIENT.read_text()


def test_the_python_needs_httpx_alone() -> None:
    tree = ast.parse(PYTHON_CLIENT.read_text(), feature_version=(3, 10))
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"httpx"}

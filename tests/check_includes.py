#!/usr/bin/env python3
"""check_includes.py FOLDER | --self-test

Layering as DESIGN.md section 1 has it: the DEPENDS of a module's trireme_module() line is the only rule.
Reads every such line and every #include below FOLDER/trireme and fails on
- an include of a module that the line does not name itself (through another module is not enough),
- a named module that is not there or that no file includes,
- a cycle,
- a *_parallel module that names another one,
- libtorch's headers in a module without TORCH, or a module without TORCH on top of one with it,
- a path that is not written from the root of the repository.
TEST_DEPENDS names what only *_test.cpp may include besides.
"""
import re
import sys
import tempfile
from pathlib import Path

TORCH_HEADERS = re.compile(r"^(torch|ATen|c10|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
KEYWORDS = ("DEPENDS", "TEST_DEPENDS", "LIBRARIES", "WITHOUT", "TORCH")


class Module:
    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name
        self.lists = {keyword: [] for keyword in KEYWORDS}
        text = re.sub(r"#.*", "", (folder / "CMakeLists.txt").read_text())
        call = re.search(r"\btrireme_module\(([^)]*)\)", text)
        self.declared, *words = call.group(1).split() if call else [None]
        self.torch = "TORCH" in words
        keyword = None
        for word in words:
            if word in KEYWORDS:
                keyword = word
            elif keyword:
                self.lists[keyword].append(word)
        self.depends = self.lists["DEPENDS"]
        self.test_depends = self.lists["TEST_DEPENDS"]

    def files(self):
        return sorted(p for p in self.folder.rglob("*") if p.suffix in (".h", ".cpp"))


def find_cycle(modules):
    """The names along one cycle of DEPENDS, or nothing."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name) :] + [name]
        if name in done or name not in modules:
            return None
        path.append(name)
        for next_name in modules[name].depends:
            if cycle := visit(next_name):
                return cycle
        path.pop()
        done.add(name)
        return None

    return next((cycle for name in modules if (cycle := visit(name))), None)


def check_declaration(module, modules):
    where = f"trireme/{module.name}/CMakeLists.txt"
    if module.declared != module.name:
        yield f"{where}: the folder's name is {module.name}, trireme_module() declares {module.declared}"
    for name in module.depends + module.test_depends:
        if name not in modules:
            yield f"{where}: names the module {name}, which is not there"
    for name in module.depends:
        if name in modules and modules[name].torch and not module.torch:
            yield f"{where}: no TORCH, but it depends on {name}, which has it"
        if module.name.endswith("_parallel") and name.endswith("_parallel"):
            yield f"{where}: names {name}; parallel modules meet in train/compose only"


def check_includes(module, root):
    used = set()
    for file in module.files():
        where = file.relative_to(root)
        is_test = file.name.endswith("_test.cpp")
        allowed = {module.name, *module.depends} | (set(module.test_depends) if is_test else set())
        for quote, header in INCLUDE.findall(file.read_text(errors="replace")):
            if TORCH_HEADERS.match(header) and not module.torch:
                yield f"{where}: includes {header}, but the module has no TORCH"
            parts = header.split("/")
            if parts[0] == "trireme" and len(parts) > 2:
                used.add(parts[1])
                if parts[1] not in allowed:
                    yield f"{where}: includes {header}, but DEPENDS does not name {parts[1]}"
            elif parts[0] == "trireme":
                yield f"{where}: includes {header}, which is for users; name the module's own header"
            elif parts[0] == "tests":
                if not is_test:
                    yield f"{where}: includes {header}, which is for tests only"
            elif quote == '"':
                yield f'{where}: includes "{header}"; write the path from the root: "trireme/{module.name}/{header}"'
    if module.files():
        for name in module.depends + module.test_depends:
            if name not in used:
                yield f"trireme/{module.name}/CMakeLists.txt: names {name}, which no file of the module includes"


def check(root):
    """All that is wrong below root, one line each, and the number of modules read."""
    folders = sorted(p.parent for p in (root / "trireme").glob("*/CMakeLists.txt"))
    modules = {folder.name: Module(folder) for folder in folders}
    problems = []
    for module in modules.values():
        problems += check_declaration(module, modules)
        problems += check_includes(module, root)
    if cycle := find_cycle(modules):
        problems.append("cycle: " + " -> ".join(cycle))
    return problems, len(modules)


def self_test():
    """A small tree that is right; then one fault at a time, each of which must be found."""
    good = {
        "base/CMakeLists.txt": "trireme_module(base)",
        "base/error.h": "#include <string>",
        "comm/CMakeLists.txt": "# comment (with words)\ntrireme_module(comm DEPENDS base TORCH)",
        "comm/group.h": '#include <ATen/core/Tensor.h>\n#include "trireme/base/error.h"',
        "data_parallel/CMakeLists.txt": "trireme_module(data_parallel\n  DEPENDS base comm\n  TEST_DEPENDS model TORCH)",
        "data_parallel/reducer.h": '#include "trireme/base/error.h"\n#include "trireme/comm/group.h"',
        "data_parallel/reducer_test.cpp": '#include "tests/harness/ranks.h"\n#include "trireme/model/gpt2.h"',
        "model/CMakeLists.txt": "trireme_module(model DEPENDS comm TORCH)",
        "model/gpt2.h": '#include "trireme/comm/group.h"',
        "tensor_parallel/CMakeLists.txt": "trireme_module(tensor_parallel DEPENDS comm TORCH)",
        "tensor_parallel/column.h": '#include "trireme/comm/group.h"',
    }
    faults = [
        ("not named, though reached through comm", "model/gpt2.h", '#include "trireme/base/error.h"\n#include "trireme/comm/group.h"', "DEPENDS does not name base"),
        ("named for tests only", "data_parallel/reducer.h", '#include "trireme/base/error.h"\n#include "trireme/comm/group.h"\n#include "trireme/model/gpt2.h"', "DEPENDS does not name model"),
        ("named and not used", "tensor_parallel/column.h", "", "which no file of the module includes"),
        ("named and not there", "model/CMakeLists.txt", "trireme_module(model DEPENDS comm ops TORCH)", "which is not there"),
        ("cycle", "base/CMakeLists.txt", "trireme_module(base DEPENDS model TORCH)", "cycle: base -> model -> comm -> base"),
        ("parallel names parallel", "tensor_parallel/CMakeLists.txt", "trireme_module(tensor_parallel DEPENDS comm data_parallel TORCH)", "train/compose only"),
        ("torch header without TORCH", "base/error.h", "#include <torch/torch.h>", "the module has no TORCH"),
        ("module with torch below one without", "model/CMakeLists.txt", "trireme_module(model DEPENDS comm)", "no TORCH, but it depends on comm"),
        ("relative path", "comm/group.h", '#include "../base/error.h"\n#include "trireme/base/error.h"', "write the path from the root"),
        ("umbrella", "comm/group.h", '#include "trireme/trireme.h"\n#include "trireme/base/error.h"', "which is for users"),
        ("harness in a module", "comm/group.h", '#include "tests/harness/ranks.h"\n#include "trireme/base/error.h"', "for tests only"),
        ("wrong name", "base/CMakeLists.txt", "trireme_module(bass)", "declares bass"),
    ]

    def problems_of(tree):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in tree.items():
                path = Path(folder, "trireme", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return check(Path(folder))[0]

    failures = [f"the right tree is found wrong: {p}" for p in problems_of(good)]
    for what, name, text, expected in faults:
        found = problems_of({**good, name: text})
        if not any(expected in line for line in found):
            failures.append(f"{what}: nothing says '{expected}': {found}")
    return failures, f"{len(faults)} planted faults found"


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems, summary = self_test()
    elif len(sys.argv) == 2:
        problems, count = check(Path(sys.argv[1]).resolve())
        summary = f"{count} modules include only what they name"
        if count == 0:
            problems.append(f"no module below {sys.argv[1]}/trireme")
    else:
        sys.exit(__doc__)
    print("\n".join(problems) if problems else summary)
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()

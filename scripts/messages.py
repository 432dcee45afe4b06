#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints docs/messages-list.md: every error, warning and note of the sources, with its cause and its remedy.

    messages.py               prints the page
    messages.py --without     lists the messages that say no way out, for whoever improves them (test/docs/plain_words.py
                              fails where there is any), and rows of the tables below that fit nothing any more

A message is read from the expression that creates it: `Error{fmt::format("...")}`, `fail("...")`, `op.emitOpError() << "..."`,
`warnings.push_back("...")`. Text that is known only when the program runs is shown as an ellipsis.
"""
import glob
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Files whose errors get their way out where they are reported: (file or prefix of a path, the way out or the constant that holds it,
# the functions that append it). The first row that fits counts; a row with "" says that the file's errors do not pass through one.
# A file may stand here once all of its errors that have no way out of their own pass through the function.
WRAPPED = [
    ("lib/Frontend/Onnx/OnnxFile.cpp", "kExportAgain", "readOnnx"),
    ("lib/Frontend/Onnx/OnnxNeeded.cpp", "", ""),
    ("lib/Frontend/Onnx/OnnxParameters.cpp", "", ""),
    ("lib/Frontend/Onnx/", "kWriteNodeDifferently", "GraphImport::run, for each node"),
    ("lib/Frontend/StableHlo/HloSignature.cpp", "kWriteSignatureAgain", "HloImport::run, after nameArguments"),
    ("lib/Frontend/StableHlo/HloImport.cpp", "kWriteSignatureAgain", "HloImport::run, after nameArguments and pairResults"),
    ("lib/Frontend/StableHlo/HloAttributes.cpp", "kLowerAgain", "importStableHlo, after hlo::parse"),
    ("lib/Frontend/StableHlo/HloConstants.cpp", "kLowerAgain", "importStableHlo, after hlo::parse"),
    ("lib/Frontend/StableHlo/HloOpText.cpp", "kLowerAgain", "importStableHlo, after hlo::parse"),
    ("lib/Frontend/StableHlo/HloScanner.cpp", "kLowerAgain", "importStableHlo, after hlo::parse"),
    ("lib/Frontend/StableHlo/HloText.cpp", "kLowerAgain", "importStableHlo, after hlo::parse"),
    ("lib/Frontend/StableHlo/", "kWriteOperationDifferently", "at of HloEvaluate.cpp, for each operation"),
    ("lib/Frontend/Config/TransformerImport.cpp", "", ""),
    ("lib/Frontend/Config/", "kCorrectConfiguration", "modelFromConfig and readModelSizes"),
    ("lib/Frontend/Common/KerfFile.cpp", "kCorrectIr", "parseKerf"),
    ("lib/Frontend/Common/Import.cpp", "", ""),
    ("lib/Frontend/Common/LossRequest.cpp", "", ""),
    # The operations that both importers use: GraphImport::run and at of HloEvaluate.cpp append the text of their format.
    ("lib/Frontend/Common/", "write this part of the model in another way (docs/exporting.md, docs/stablehlo.md)", "GraphImport::run and at"),
    ("lib/Search/ProblemFile.cpp", "docs/interface.md has the format", "Reader::read"),
    ("lib/Schedule/Check.cpp", "report this plan, it is a bug of Kerf", "makeSchedule"),
    ("lib/Compiler/JobSettings.cpp", 'such as "*.bias:decay=0" or "lm_head.*:lr=1e-4"', "wrong of parameterGroupFrom"),
    ("lib/Runtime/CheckpointIndex.cpp", "give another checkpoint", "openCheckpoint"),
    ("lib/Runtime/Attributes.cpp", "compile the package again", "bad"),
    ("lib/Runtime/Tcp/Wire.cpp", "start the same Kerf on all machines", "greet of Handshake.cpp and recordOfZero of Follow.cpp"),
    ("lib/Runtime/Cpu/Collectives.cpp", "compile the package again", "bad"),
    ("lib/Runtime/Cpu/Kernels/", "compile the package again", "Checker::fail"),
    ("lib/Package/Check", "kCompileAgain", "readProgram"),
    ("lib/Package/FlatProgram.cpp", "kCompileAgain", "readProgram"),
    ("lib/Package/KernelSpace.cpp", "kCompileAgain", "checkNative"),
    ("lib/Package/RowKernel.cpp", "kCompileAgain", "checkNative"),
    ("lib/Package/Native.cpp", "kCompileAgain", "checkNative"),
    ("lib/Package/ProgramFile.cpp", "kCompileAgain", "readProgram"),
    ("lib/Package/Npz.cpp", "kWriteAgain", "failedArray and the readers of the file"),
    ("lib/Package/Safetensors.cpp", "kDownloadAgain", "readSafetensors"),
]
# Texts, or files of texts, that are put into a message which has a way out, and texts around a message that has one.
FRAGMENTS = [
    "cannot write '…': …",  # writeSafetensors, around a name that is to be changed
    "reshard from: …", "reshard to: …",  # around the messages of checkSharding
    'ops["…"] for …: …', 'the plan\'s ops["…"] for …: …',  # around the messages of parseOpPlan
    "its mesh has … ranks, …", "global_batch … is not a multiple of the … or global_batch",  # the remedy is in the parts
    "no plan for … of … fits into …",  # the command line appends what would make the job fit
    "chunk … of stage …", "(… or nothing)",
    # Around the texts that say what a setting has to be, and these texts.
    "<…>: '…' is not …", "a text or a list of texts", "true or false", "(true or false or a number)", "'exact' or a number above 0",
    "'dynamic' or a number above 0 that f32 holds", "a number of bytes such as 85899345920, 80GiB or 80GB", "a whole number from 0 to 2^64 - 1",
    'stages: until "…" matches no operator of the forward pass',  # the operators that there are follow
]
# Words of a message that states what would be right: "has rank 3, but must have rank 4", "but 1 to 8 are supported", "lists the stages
# from 0 to 3". To make it so is the way out. A message that only says what is wrong has none of them.
RIGHT = re.compile(r"\b(must|should be|but should|ha(s|ve) to|needs?|requires)\b|\bbut\b.*\b(is|are|only)\b|\b(from|range|outside of)\b.* … to …")
# A message that ends with text that only the running program has: a remedy behind "; ", or another message, or the system's reason
# ("No space left on device"), behind ": ".
CONTINUES = re.compile(r"[;:] …$")
# Where messages are created: (prefix of the path, title, cause, what to do where a message does not say it). The first prefix that fits counts.
SECTIONS = [
    ("tools/", "The command line", "An option, an argument or a combination of them is not possible.",
     "Change the option that the message names. `kerf COMMAND --help` lists the options of a command with their ranges."),
    ("lib/Frontend/Onnx/", "Reading ONNX files", "The file is damaged, or a node asks for something that Kerf does not compute.",
     "Export the model again as [exporting.md](exporting.md) shows, or write the part of the module that the named node comes from in another way. "
     "[operators.md](operators.md) lists what is read."),
    ("lib/Frontend/StableHlo/", "Reading StableHLO text", "The text is damaged, or an operation or attribute is not one that Kerf reads.",
     "Lower the function again as [stablehlo.md](stablehlo.md) shows; that page lists what is read."),
    ("lib/Frontend/Config/", "Reading Hugging Face configurations and weights", "A key of `config.json` is missing or has a value that the family does not allow, "
     "or the weights have other names or shapes than the configuration says.", "Correct the key that the message names, or export the model to ONNX. [models.md](models.md) lists families and keys."),
    ("lib/Frontend/", "Reading models", "A file that belongs to a model (graph, weights, signature) is missing, damaged or does not fit the others.",
     "Write the named file again from the framework that made it."),
    ("lib/Dialect/", "Verifying kerf IR", "An operation in kerf IR has operands, results or attributes that its definition does not allow.",
     "Where the IR was written by hand, correct the named operation by its entry in [operators.md](operators.md). Where it was imported from a file, this is a bug of Kerf: keep the file and report it."),
    ("lib/Transforms/", "Passes", "A pass cannot carry out what the plan, the pins or the IR ask for.",
     "Change the pin or the plan's key that the message names ([plan.md](plan.md)), or the IR where it was written by hand ([passes.md](passes.md))."),
    ("lib/Codec/", "Codecs of gradients", "The file of a codec is no codec: its attribute, its functions or an operator in them is not allowed.",
     "Correct the file; [compression.md](compression.md#writing-a-codec) says what a codec is."),
    ("lib/Optimizer/", "Optimizers", "An optimizer's option is unknown or out of range.", "Change the option that the message names; [training.md](training.md) has the optimizers and their options."),
    ("lib/Codegen/", "Generating machine code", "A fused kernel cannot be compiled for this machine.", "Run with `--no-native`, which uses the kernels that are built in, and report the kernel."),
    ("lib/CostModel/", "Cluster files and prices", "A key of a cluster file is missing, unknown or out of range, or a plan cannot be priced on the cluster.",
     "Correct the key that the message names; [clusters.md](clusters.md) has each key with its unit and range."),
    ("lib/Compression/", "Compression of gradients", "A codec, a scheme and a gradient do not fit together.",
     "Change the entry of the plan's `compression` that the message names; [compression-planning.md](compression-planning.md) has its keys."),
    ("lib/PlanSearch/", "Plans and constraints", "A plan or a file of constraints contradicts itself, the model or the cluster.",
     "Change or remove the key that the message names; [plan.md](plan.md) has each key with what it may be."),
    ("lib/Search/", "Placement problems and plan files", "A problem file or a plan file is damaged, or its numbers are out of range.", "Write the file again; [plan.md](plan.md) and [search.md](search.md) have the formats."),
    ("lib/Sharding/", "Shardings and strategies", "A sharding or a strategy cuts a dimension in a way that its operation or the mesh does not allow.",
     "Change the strategy in the plan's `ops` or `arguments` ([plan.md](plan.md))."),
    ("lib/Schedule/", "Pipeline schedules", "A schedule's name, variant or chunks do not fit the number of stages and microbatches.", "Choose another schedule or number; [plan.md](plan.md) lists them."),
    ("lib/Steps/", "The list of steps", "The program of a stage cannot be put in order.", "This is a bug of Kerf: keep the plan and report it."),
    ("lib/Package/", "Packages and tensor files", "A file of a package, a checkpoint, a `.npz` or a `.safetensors` file is damaged, of another version, or does not fit the program.",
     "Write the file again: `kerf compile` for packages, the program that made them for the others. [package.md](package.md) has the format."),
    ("lib/Export/", "Exports to other trainers", "The plan says something that the other trainer cannot run.", "Plan with `--for TRAINER`, which searches only what that trainer runs ([export.md](export.md))."),
    ("lib/Runtime/", "Running", "Data, weights, checkpoints, ranks or the machine do not fit the program, or a rank failed.",
     "The message names the rank and the file. [runtime.md](runtime.md), [training.md](training.md), [several-nodes.md](several-nodes.md) and [checkpoints.md](checkpoints.md) say what a run needs."),
    ("lib/Trainer/", "Training inside another program", "A call of `Trainer` or `Session` came with the wrong batch or at the wrong time.", "See [embedding.md](embedding.md)."),
    ("lib/Profile/", "Measuring this machine", "A measurement failed or its result is not plausible.", "Run `kerf profile` again on a machine that does nothing else."),
    ("lib/Report/", "Reports", "A report cannot be made from this plan.", "Make the plan again with this version of Kerf."),
    ("lib/Compiler/", "Planning, compiling and verifying", "The job, the plan and the model do not fit together.", "Change the setting that the message names, in angle brackets; it is the option of the same name."),
    ("lib/Support/", "Files and the system", "The operating system refused something.", "The message has the system's reason: a path, permissions, or space on the disk."),
]
ERRORS = {"Error", "fail", "wrong", "bad", "problemError", "failValue", "failSyntax", "failRange", "failEnd", "refuse", "ValidationError", "emitError", "emitOpError", "error"}
WARNINGS = {"emitWarning", "warning", "warn", "warnings"}
NOTES = {"note", "notes"}
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?P<raw>.*?)\)"|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\]|\\.)+\'|[A-Za-z_]\w*|\d[\w.\']*|<<|->|::|\S', re.DOTALL)
OPEN, CLOSE = "([{", ")]}"
ESCAPES = {"n": " ", "t": " ", '"': '"', "\\": "\\", "'": "'"}


def constants():
    """Name -> text of the constants of the sources that hold a text; a name with several texts is left out."""
    found = {}
    for path in sources():
        with open(path) as file:
            for name, literals in re.findall(r'constexpr (?:std::string_view|const char \*)\s*(k\w+)\s*=\s*((?:"(?:[^"\\\n]|\\.)*"\s*)+);', file.read()):
                text = "".join(token for token, _ in tokens(literals))
                found[name] = text if found.get(name, text) == text else None
    return {name: text for name, text in found.items() if text is not None}


def sources():
    """The paths of the sources in the order of the page."""
    paths = sorted(path for folder in ("lib", "tools") for path in glob.glob(os.path.join(ROOT, folder, "**", "*.cpp"), recursive=True))
    return paths + sorted(path for folder in ("lib", "include", "tools") for path in glob.glob(os.path.join(ROOT, folder, "**", "*.h"), recursive=True))


class Literal(str):
    """The text of a string literal, to tell it from the other tokens."""


def tokens(source):
    """The tokens of C++ text as (token, line); adjacent string literals are one."""
    found = []
    for match in TOKEN.finditer(source):
        token = match.group(0)
        if token.startswith(("//", "/*")):
            continue
        line = source.count("\n", 0, match.start()) + 1 if token[0] in "\"R" or token in ERRORS | WARNINGS | NOTES else 0
        if match["text"] is not None or match["raw"] is not None:
            text = match["raw"] if match["raw"] is not None else re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], ""), match["text"])
            if found and isinstance(found[-1][0], Literal):
                found[-1] = (Literal(found[-1][0] + text), found[-1][1])
            else:
                found.append((Literal(text), line))
            continue
        found.append((token, line))
    return found


def closing(items, start):
    """The index of the bracket that closes the one at `start`."""
    depth = 0
    for index in range(start, len(items)):
        if not isinstance(items[index], Literal):
            depth += (items[index] in OPEN) - (items[index] in CLOSE)
        if depth == 0:
            return index
    return len(items) - 1


def split(items, marks):
    """Parts of an expression between the tokens `marks` that no bracket encloses."""
    parts, depth = [[]], 0
    for token in items:
        plain = not isinstance(token, Literal)
        if plain and depth == 0 and token in marks:
            parts.append([])
            continue
        depth += (plain and token in OPEN) - (plain and token in CLOSE)
        parts[-1].append(token)
    return parts


def formatted(text, arguments):
    """The text of fmt::format: constants in their places, and an ellipsis in the place of every other argument."""
    given = iter([CONSTANTS.get(part[0], "…") if len(part) == 1 else "…" for part in arguments])

    def fill(match):
        if match[0] in ("{{", "}}"):
            return match[0][0]
        return next(given, "…") if match[0][1] in ":}" else "…"

    return re.sub(r"\{\{|\}\}|\{[^{}]*\}", fill, text)


def text_of(items):
    """The text of an expression; what only the running program has is an ellipsis."""
    if not items:
        return ""
    condition = split(items, ["?"])
    pieces = split(items, ["+", "<<"])
    if len(pieces) > 1 and len(condition) == 1:
        return "".join(text_of(piece) for piece in pieces)
    if len(pieces) > 1:  # a condition inside of a chain is in brackets; outside of one it decides about the whole
        first = split(pieces[0], ["?"])
        if len(first) == 1 and any(len(split(piece, ["?"])) > 1 for piece in pieces[:-1]):
            return "".join(text_of(piece) for piece in pieces)
    if len(condition) > 1:
        either = split([token for part in condition[1:] for token in part + ["?"]][:-1], [":"])
        texts = [text_of(part) for part in either]
        return texts[0] if len(texts) < 2 or texts[0] == texts[-1] else "(" + " or ".join(text or "nothing" for text in dict.fromkeys(texts)) + ")"
    if len(items) == 1:
        return str(items[0]) if isinstance(items[0], Literal) else CONSTANTS.get(items[0], "…")
    if items[0] in ("(", "{") and not isinstance(items[0], Literal) and closing(items, 0) == len(items) - 1:
        return text_of(split(items[1:-1], [","])[0])
    names = [token for token in items[:4] if not isinstance(token, Literal)]
    if names[:3] == ["fmt", "::", "format"] or names[:3] == ["std", "::", "string"]:
        arguments = split(items[4:-1], [","])
        text = text_of(arguments[0])
        return formatted(text, arguments[1:]) if names[2] == "format" else text
    if len(names) > 1 and names[0] in ("Twine", "message", "says") and items[1] == "(":
        return text_of(items[2:-1])
    return "…"


def messages(path):
    """(kind, text) of each message that the file creates, in its order."""
    with open(path) as file:
        found = tokens(file.read())
    items = [token for token, _ in found]
    for index, token in enumerate(items[:-1]):
        if isinstance(token, Literal) or token not in ERRORS | WARNINGS | NOTES:
            continue
        kind = "error" if token in ERRORS else "warning" if token in WARNINGS else "note"
        at = index + 1
        if token in ("warnings", "notes"):
            if items[at] != "." or items[at + 1] not in ("push_back", "emplace_back", "insert"):
                continue
            at += 2
        if isinstance(items[at], Literal) or items[at] not in "({":
            continue
        end = closing(items, at)
        arguments = split(items[at + 1:end], [","])
        if token.startswith("emit"):
            rest = items[end + 1:]
            last = next((i for i, other in enumerate(rest) if other in (";", ",", ")", "}") and not isinstance(other, Literal) and
                         sum((t in OPEN) - (t in CLOSE) for t in rest[:i] if not isinstance(t, Literal)) == 0), len(rest))
            text = text_of(arguments[-1]) if any(isinstance(t, Literal) for t in arguments[-1]) else ""
            chain = rest[1:last] if rest and rest[0] == "<<" else []
            text += text_of(chain) if chain else ""
        else:
            texts = [text_of(part) for part in arguments if any(isinstance(t, Literal) for t in part)]
            text = "; ".join(texts)
        text = re.sub(r"\s+", " ", re.sub(r"…(\s*…)+", "…", text)).strip()
        if len(re.findall(r"[A-Za-z]{2,}", text)) < 2:
            continue
        if "InternalCheck" in items[at:end] and "; " not in text:
            text += "; " + CONSTANTS.get("kReportBug", "")  # which the command line appends
        yield kind, text


def is_fragment(text, path):
    return any(text == row or path.startswith(row) for row in FRAGMENTS)


def remedy(kind, text, path):
    """A message as (what is wrong, what to do). The way out stands behind the last semicolon, or is appended where the error is reported."""
    before, mark, after = text.rpartition("; ")
    if mark and len(after) > 3 and after != "…":
        return before, after
    way = next((row[1] for row in WRAPPED if path.startswith(row[0])), "")
    return text, CONSTANTS.get(way, way) if kind == "error" and not is_fragment(text, path) else ""


def lacks_way_out(kind, text, path):
    """Whether a message says neither what to do nor what would be right. A note explains another message and needs no way out."""
    return kind != "note" and not remedy(kind, text, path)[1] and not RIGHT.search(text) and not CONTINUES.search(text) and not is_fragment(text, path)


def stale_rows(found):
    """The rows of the tables that fit no file or no text, and the way outs that name no constant."""
    texts = {text for rows in found.values() for _, text in rows}
    paths = [os.path.relpath(path, ROOT) for path in sources()]
    for path, way, _ in WRAPPED:
        if not any(one.startswith(path) for one in paths) or (re.fullmatch(r"k[A-Z]\w*", way) and way not in CONSTANTS):
            yield f"{path}: {way}"
    for row in FRAGMENTS:
        if row not in texts and not any(one.startswith(row) for one in paths):
            yield row


def cell(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("|", "\\|").replace("*", "\\*").replace("`", "\\`")


def collect():
    """Section index -> {(kind, text): the first path that has it}, in the order of the sources."""
    found = {index: {} for index in range(len(SECTIONS))}
    for path in sources():
        name = os.path.relpath(path, ROOT)
        section = next((index for index, row in enumerate(SECTIONS) if name.replace("include/kerf/", "lib/").startswith(row[0])), None)
        if section is None:
            sys.exit(f"messages.py: no row of SECTIONS fits {name}; add one for its folder")
        for message in messages(path):
            found[section].setdefault(message, name)
    return found


CONSTANTS = constants()


def page():
    found = collect()
    total = sum(map(len, found.values()))
    print("<!-- Generated from the sources by `make docs`: change the message, or scripts/messages.py. -->\n")
    print("# All messages\n")
    print("This page is for whoever has a message of `kerf` and wants its cause and its remedy. It lists all", total, "errors, warnings and notes")
    print("by the part of Kerf that reports them. [messages.md](messages.md) explains the most frequent ones with examples. To find a")
    print("message, search this page for a few of its words:\n")
    print("```sh elsewhere\ngrep -n 'does not fit' docs/messages-list.md\n```\n")
    print("An ellipsis (…) stands for a name or a number that the message has when it is printed. A name in angle brackets, such as")
    print("&lt;ranks&gt;, is a setting: the command line prints it as the option of that name, `--ranks`. The last column says what to do;")
    print("where it is empty, correct what the message names, or follow the remedy at the head of the section.")
    for index, (_, title, cause, way_out) in enumerate(SECTIONS):
        if not found[index]:
            continue
        print(f"\n## {title}\n\n**Cause.** {cause}\n\n**Remedy.** {way_out}\n\n| kind | message | what to do |\n|---|---|---|")
        for kind, text in sorted(found[index], key=lambda row: (row[1].lstrip("'…: ").lower(), row)):
            wrong, way = remedy(kind, text, found[index][kind, text])
            print(f"| {kind} | {cell(wrong)} | {cell(way)} |")


def main():
    if sys.argv[1:] == ["--without"]:
        found = collect()
        for rows in found.values():
            for (kind, text), path in rows.items():
                if lacks_way_out(kind, text, path):
                    print(f"{path}: {kind}: {text}")
        for row in stale_rows(found):
            print(f"scripts/messages.py: a row fits nothing: {row}")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        page()


if __name__ == "__main__":
    main()

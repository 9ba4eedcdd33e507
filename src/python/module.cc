// import stepcast: the C++ library (src/stepcast.h) with Python's values.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pybind11/pybind11.h"
#include "pybind11/stl.h"
#include "src/stepcast.h"

namespace stepcast::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

constexpr const char* kModule =
    "Forecasts training steps of distributed training.\n\n"
    "A scenario is the path of a scenario file or plan.json, or a dict with the same keys; `set` "
    "is a\n"
    "dict of dotted keys and their values, as with --set. Results are dicts, those that the "
    "commands\n"
    "print with --json. Mistakes in the input raise InputError, whose `diagnostics` is a list of\n"
    "dicts with code, file, line, column, message and hint; failures raise Failure. Other threads "
    "run\n"
    "while a forecast is made.";

// Python's own writer and reader of JSON.
py::object Json(const char* function) { return py::module_::import("json").attr(function); }

std::string TextOf(const py::handle& value) {
  if (py::isinstance<py::str>(value)) return py::cast<std::string>(value);
  return py::cast<std::string>(Json("dumps")(value));
}

library::Input InputOf(const py::object& scenario, const py::dict& set) {
  library::Input input;
  if (py::isinstance<py::dict>(scenario)) {
    // A line for each key, so that positions tell something.
    input.text = py::cast<std::string>(Json("dumps")(scenario, "indent"_a = 1));
    input.title = "dict";
  } else {
    input.path = py::cast<std::string>(py::module_::import("os").attr("fsdecode")(scenario));
    if (input.path.empty()) input.path = " ";  // no file; an empty path would mean a text
  }
  for (const auto& [key, value] : set) {
    input.set.push_back(py::cast<std::string>(key) + "=" + TextOf(value));
  }
  return input;
}

py::object error_class;
py::object failure_class;

[[noreturn]] void Raise(const library::Failure& failure) {
  if (failure.mistakes.empty()) {
    PyErr_SetString(failure_class.ptr(), failure.reason.c_str());
    throw py::error_already_set();
  }
  py::list diagnostics;
  std::string text;
  for (const library::Mistake& mistake : failure.mistakes) {
    diagnostics.append(py::dict("code"_a = mistake.code, "file"_a = mistake.file,
                                "line"_a = mistake.line, "column"_a = mistake.column,
                                "message"_a = mistake.message, "hint"_a = mistake.hint));
    if (!text.empty()) text += "\n";
    text += mistake.file;
    if (mistake.line > 0) {
      text += ":" + std::to_string(mistake.line) + ":" + std::to_string(mistake.column);
    }
    text += ": " + mistake.message + " [" + mistake.code + "]";
    if (!mistake.hint.empty()) text += "; " + mistake.hint;
  }
  py::object error = error_class(text);
  error.attr("diagnostics") = diagnostics;
  PyErr_SetObject(error_class.ptr(), error.ptr());
  throw py::error_already_set();
}

// The document of an answer. `ask` runs without the interpreter's lock.
template <typename Ask>
py::object DocumentOf(Ask ask) {
  std::string json;
  library::Failure failure;
  bool failed = false;
  {
    const py::gil_scoped_release release;
    auto answer = ask();
    if (answer) {
      json = std::move(answer->json);
    } else {
      failed = true;
      failure = std::move(answer.error());
    }
  }
  if (failed) Raise(failure);
  return Json("loads")(json);
}

py::object Simulate(const py::object& scenario, const py::dict& set) {
  const library::Input input = InputOf(scenario, set);
  return DocumentOf([&] { return library::Simulate(input); });
}

py::object Memory(const py::object& scenario, const py::dict& set, bool max_micro_batch) {
  const library::Input input = InputOf(scenario, set);
  return DocumentOf([&] { return library::Memory(input, max_micro_batch); });
}

py::object Explain(const py::object& scenario, const py::dict& set) {
  const library::Input input = InputOf(scenario, set);
  return DocumentOf([&] { return library::Explain(input); });
}

py::object Compare(const py::object& a, const py::object& b, const py::dict& set_a,
                   const py::dict& set_b) {
  const library::Input of_a = InputOf(a, set_a);
  const library::Input of_b = InputOf(b.is_none() ? a : b, set_b);
  return DocumentOf([&] { return library::Compare(of_a, of_b); });
}

py::object Emit(const py::object& scenario, const std::string& folder, const py::dict& set,
                bool force) {
  const library::Input input = InputOf(scenario, set);
  return DocumentOf([&] { return library::Emit(input, folder, force); });
}

// "KEY=V1,V2,..." for each key. Values are those of a list, or text as --vary has it behind the
// equals sign.
std::vector<std::string> AxesOf(const py::dict& vary) {
  std::vector<std::string> axes;
  for (const auto& [key, values] : vary) {
    std::string axis = py::cast<std::string>(key) + "=";
    if (py::isinstance<py::str>(values)) {
      axis += py::cast<std::string>(values);
    } else {
      bool first = true;
      for (const py::handle value : py::iter(values)) {
        if (!first) axis += ",";
        first = false;
        axis += TextOf(value);
      }
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

py::object Sweep(const py::object& scenario, const py::dict& vary, const py::dict& set) {
  const library::Input input = InputOf(scenario, set);
  const std::vector<std::string> axes = AxesOf(vary);
  return DocumentOf([&] { return library::Sweep(input, axes); });
}

py::object Plan(const py::object& scenario, const std::string& target, const std::string& framework,
                const std::string& only, const std::string& within, const py::dict& vary,
                const std::vector<std::string>& fix, const py::dict& set,
                const std::string& deadline, const std::string& tokens, std::optional<double> price,
                const std::string& availability, const std::string& headroom, bool fewer_nodes,
                int best, int why, const std::string& emit, bool force) {
  const library::Input input = InputOf(scenario, set);
  library::PlanQuestion question;
  question.target = target;
  question.framework = framework;
  question.only = only;
  question.within = within;
  question.vary = AxesOf(vary);
  question.fix = fix;
  question.deadline = deadline;
  question.tokens = tokens;
  question.price = price;
  question.availability = availability;
  question.headroom = headroom;
  question.fewer_nodes = fewer_nodes;
  question.best = best;
  question.why = why;
  question.folder = emit;
  question.force = force;
  return DocumentOf([&] { return library::Plan(input, question); });
}

}  // namespace

PYBIND11_MODULE(stepcast, module) {
  module.doc() = kModule;
  // Python classes, so that `diagnostics` has a place and except clauses know their bases.
  const py::object type = py::module_::import("builtins").attr("type");
  const auto make = [&](const char* name, PyObject* base, const char* about) {
    py::dict members;
    members["__doc__"] = about;
    members["__module__"] = "stepcast";
    py::object made = type(name, py::make_tuple(py::handle(base)), members);
    module.attr(name) = made;
    return made;
  };
  error_class =
      make("InputError", PyExc_ValueError, "Mistakes in the input; `diagnostics` lists them.");
  error_class.attr("diagnostics") = py::tuple();
  failure_class = make("Failure", PyExc_RuntimeError, "What failed, in a sentence.");
  // The classes live as long as the module does; these handles must not outlive the interpreter.
  module.add_object("_cleanup", py::capsule([] {
                      error_class.release();
                      failure_class.release();
                    }));

  module.def("simulate", &Simulate, "scenario"_a, "set"_a = py::dict(),
             "The forecast of one step: the document of `stepcast simulate --json`.");
  module.def("memory", &Memory, "scenario"_a, "set"_a = py::dict(), "max_micro_batch"_a = false,
             "Memory by ZeRO stage: the document of `stepcast memory --json`.");
  module.def(
      "sweep", &Sweep, "scenario"_a, "vary"_a, "set"_a = py::dict(),
      "Every combination: the document of `stepcast sweep --json`. `vary` is a dict of keys\n"
      "and their values: a list, or text as --vary takes it.");
  module.def("plan", &Plan, "scenario"_a, py::kw_only(), "target"_a = "step_time",
             "framework"_a = "", "only"_a = "", "within"_a = "", "vary"_a = py::dict(),
             "fix"_a = std::vector<std::string>(), "set"_a = py::dict(), "deadline"_a = "",
             "tokens"_a = "", "price"_a = py::none(), "availability"_a = "", "headroom"_a = "",
             "fewer_nodes"_a = false, "best"_a = 0, "why"_a = 0, "emit"_a = "", "force"_a = false,
             "The best plans: the document of `stepcast plan --json`; arguments are its options.\n"
             "`emit` names a folder for the best one.");
  module.def("compare", &Compare, "a"_a, "b"_a = py::none(), "set_a"_a = py::dict(),
             "set_b"_a = py::dict(),
             "Two plans side by side: the document of `stepcast compare --json`.");
  module.def("explain", &Explain, "scenario"_a, "set"_a = py::dict(),
             "Why a step takes as long as it does: the document of `stepcast explain --json`.");
  module.def("emit", &Emit, "scenario"_a, "folder"_a, "set"_a = py::dict(), "force"_a = false,
             "Writes the plan into a folder, as `stepcast simulate --emit`; returns the forecast.");
}

}  // namespace stepcast::python

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/diagnostic.h"
#include "src/plan/legality.h"
#include "src/plan/request.h"
#include "src/scenario/input_contents.h"
#include "src/scenario/scenario.h"
#include "src/scenario/yaml_tree.h"

// How a scenario is read: what is behind load.h and variants.h.
namespace stepcast::scenario {

// A scenario's tree before it is understood.
struct OpenedScenario {
  YamlTree root;  // null: there is none, and the mistakes say why
  Diagnostics mistakes;
  std::string file;  // that relative paths start from
  // What the command line changes, behind the title, which speaks of the file: ", with KEY=VALUE".
  std::string changes{};
};

// The file at `path`, as scenario::Load has it.
Result<OpenedScenario> OpenScenario(const std::string& path, InputCache& cache);
// The tree with each "KEY=VALUE" applied in turn; a wrong one is among the mistakes and left out.
// KEY=null means the key's default, whether or not the tree has the key; a mistake where no reader
// knows it.
void Override(const std::vector<std::string>& overrides, OpenedScenario& scenario,
              InputCache& cache);

// Makes a scenario of a tree.
class Loader {
 public:
  Loader(OpenedScenario opened, InputCache& cache);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // Every mistake of every file involved, by file and position. Once.
  Result<void> Read();

  // Whether rules about plans are all that a failed Read has found wrong: `broken` are these, and
  // Reread may be called.
  bool can_reread() const;

  // After a Read without mistakes.
  const Scenario& scenario() const;  // but for `resolved`
  const plan::Request& request() const;
  std::optional<std::int64_t> nodes() const;
  Scenario Take();  // ends this

  // Makes `scenario` what it would be if the tree's plan were `request`, of the same precision, and
  // its cluster of `nodes`, which are stated if those of the tree are. False where that is no
  // scenario; Reread can then be tried with others.
  bool Reread(const plan::Request& request, std::optional<std::int64_t> nodes);
  // The rules about plans that the last Read or Reread found broken, if it was these that refused
  // it.
  const std::vector<plan::Violation>& broken() const;

 private:
  class Reading;
  std::unique_ptr<Reading> reading_;
  Diagnostics mistakes_;  // where there is nothing to read
};

}  // namespace stepcast::scenario

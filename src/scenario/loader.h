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

// How a scenario is read: implementation of load.h and variants.h.
namespace stepcast::scenario {

// A scenario's tree before it is interpreted.
struct OpenedScenario {
  YamlTree root;  // null: there is none, and `mistakes` say why
  Diagnostics mistakes;
  std::string file;  // base of relative paths
  // Suffix of the title, which describes the file, for command-line changes: ", with KEY=VALUE".
  std::string changes{};
  // The command line gives other machines, or another number of them, than the title may name.
  bool other_machines = false;
};

// Opens the file at `path`, as for scenario::Load.
Result<OpenedScenario> OpenScenario(const std::string& path, InputCache& cache);
// Applies each "KEY=VALUE" in turn. A wrong one is added to the mistakes and skipped. KEY=null
// means the key's default, whether or not the tree has the key; it is a mistake if no reader knows
// the key.
void Override(const std::vector<std::string>& overrides, OpenedScenario& scenario,
              InputCache& cache);

// Makes a scenario from a tree.
class Loader {
 public:
  Loader(OpenedScenario opened, InputCache& cache);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // On failure, every mistake of every file involved, by file and position. Call once.
  Result<void> Read();

  // Whether a failed Read found only broken rules about plans. Then broken() returns them, and
  // Reread may be called.
  bool can_reread() const;

  // After a successful Read.
  const Scenario& scenario() const;  // `resolved` may be empty
  const plan::Request& request() const;
  std::optional<std::int64_t> nodes() const;
  Scenario Take();  // ends the life of this object's scenario

  // Changes `scenario` to that of a tree whose plan is `request`, with the same precision, and
  // whose cluster has `nodes` (given if the tree gives them). False if that is not a legal
  // scenario; Reread can then be called with other values.
  bool Reread(const plan::Request& request, std::optional<std::int64_t> nodes);
  // The broken rules about plans, if they were the reason why the last Read or Reread failed.
  const std::vector<plan::Violation>& broken() const;

 private:
  class Reading;
  std::unique_ptr<Reading> reading_;
  Diagnostics mistakes_;  // if there is nothing to read
};

}  // namespace stepcast::scenario

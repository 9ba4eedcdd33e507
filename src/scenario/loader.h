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

// How a scenario is read: the implementation of load.h and variants.h.
namespace stepcast::scenario {

// The tree of a scenario before it is converted to values.
struct OpenedScenario {
  YamlTree root;  // null: the text could not be parsed; see `mistakes`
  Diagnostics mistakes;
  std::string file;  // base of relative paths
  // The overrides of the command line, as text to append to the title: ", with KEY=VALUE".
  std::string changes{};
  // Whether the command line changes the machines or their number, so that the title in the file
  // may be wrong.
  bool other_machines = false;
};

// Opens the file at `path`, as scenario::Load does.
Result<OpenedScenario> OpenScenario(const std::string& path, InputCache& cache);
// Applies each "KEY=VALUE" in order. KEY=null selects the default of the key, whether or not the
// tree contains the key. A wrong override, or an unknown key, is added to the mistakes and skipped.
void Override(const std::vector<std::string>& overrides, OpenedScenario& scenario,
              InputCache& cache);

// Converts a tree to a scenario.
class Loader {
 public:
  Loader(OpenedScenario opened, InputCache& cache);
  ~Loader();
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;

  // Reads the scenario. On failure, returns all mistakes of all files, ordered by file and
  // position. Call Read only once.
  Result<void> Read();

  // Returns whether Read failed only because the plan is illegal. broken() then returns the
  // violated rules, and Reread may be called.
  bool can_reread() const;

  // Call these functions only after a successful Read.
  const Scenario& scenario() const;  // `resolved` may be empty
  const plan::Request& request() const;
  std::optional<std::int64_t> nodes() const;
  Scenario Take();  // moves the scenario out of this object

  // Replaces the plan of `scenario` by `request`, which must have the same precision. `nodes` is
  // the cluster's number of nodes, and must be set if the tree contains this number. Returns false
  // if the new scenario is illegal; Reread can then be called with other values.
  bool Reread(const plan::Request& request, std::optional<std::int64_t> nodes);
  // Returns the violations of plan rules that made the last Read or Reread fail.
  const std::vector<plan::Violation>& broken() const;

 private:
  class Reading;
  std::unique_ptr<Reading> reading_;
  Diagnostics mistakes_;  // mistakes of a tree that cannot be read
};

}  // namespace stepcast::scenario

#pragma once

#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/model/context_parallel.h"
#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/legality.h"
#include "src/plan/request.h"
#include "src/scenario/scenario.h"

// How a job's ranks share out model, sequences and batch: values, and which of them can exist. The
// rules are those of plan::Check; a layout is legal where no rule about it alone refuses it, with
// some micro-batch.
namespace stepcast::planner {

// What ranks divide beside the batch.
enum class ParallelKind : std::uint8_t { kTensor, kPipeline, kContext, kExpert };
inline constexpr ParallelKind kParallelKinds[] = {ParallelKind::kTensor, ParallelKind::kPipeline,
                                                  ParallelKind::kContext, ParallelKind::kExpert};
const char* Name(ParallelKind kind);  // "tensor"

struct Layout {
  std::int64_t tensor = 1;
  bool sequence_parallel = false;
  std::int64_t pipeline = 1;
  std::string schedule{};  // empty: the default one, or there is no pipeline
  std::int64_t virtual_stages = 1;
  // Equal parts of a pipeline count them as a block each.
  bool counts_embedding = false, counts_loss = false;
  std::int64_t context = 1;
  model::ContextMethod context_method = model::ContextMethod::kRing;
  std::int64_t context_inner = 0;  // of a hierarchy
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t data = 1;  // what the others leave of the devices

  std::int64_t ranks_per_replica() const { return tensor * pipeline * context; }
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

// A setting of `parallelism` that layouts have values of; in the order in which they are chosen.
struct LayoutKey {
  const char* key;  // "parallelism.tensor"
  ParallelKind kind;
  std::string (*text)(const Layout& layout);  // the value, as a scenario has it
  // Takes a value, "null" for the default. False: it is none.
  bool (*take)(Layout& layout, std::string_view text);
  bool (*used)(const Layout& layout);  // it does something there
};
std::span<const LayoutKey> LayoutKeys();
const LayoutKey* FindLayoutKey(std::string_view key);  // nullptr: it is another setting

// Sequences are not divided further than into parts of so many tokens, unless that is asked for.
inline constexpr std::int64_t kLeastContextTokens = 1024;

// The scenario's own.
Layout LayoutOf(const plan::Plan& plan);

// Layouts of the plans of one framework at one ZeRO stage on so many devices.
struct LayoutQuestion {
  const scenario::Scenario& scenario;
  const plan::Facts& facts;  // of the scenario
  plan::Framework framework{};
  int stage = 0;
  std::int64_t devices = 1;
  // The ranks are all devices; else `parallelism.data` is chosen by itself.
  bool fills = true;
  std::span<const ParallelKind> kinds{};  // that may have other degrees than 1
  // Something else says how many blocks each stage has.
  bool stage_layers_vary = false;
  bool own_stage_layers = false;  // the scenario does, for the stages that it has
  bool compiles = false;          // plans have training.compile
  // By LayoutKey::key: values that are asked for. Of other keys all that are legal are tried, and
  // the scenario's own.
  const std::map<std::string, std::vector<std::string>, std::less<>>* given = nullptr;
};

class LayoutRules {
 public:
  explicit LayoutRules(const LayoutQuestion& question);

  // Legal ones, in the order of the values of LayoutKeys, the last varying fastest.
  std::vector<Layout> Legal() const;
  // Why there is no such layout, by the first rule that it breaks; nothing: it is legal.
  std::optional<plan::Violation> WhyNot(const Layout& layout) const;
  // Of micro-batches of these sizes those that some plan of the layout can have.
  std::vector<std::int64_t> MicroBatches(const Layout& layout,
                                         const std::vector<std::int64_t>& sizes) const;
  // Whether the layers' collectives and products can overlap as the framework has it.
  bool Overlaps(const Layout& layout) const;
  // Whether the scenario's stage_layers are those of the layout's stages.
  bool KeepsStageLayers(const Layout& layout) const;

 private:
  plan::Request RequestOf(const Layout& layout) const;
  std::vector<plan::Violation> Broken(const plan::Request& request, bool on_devices) const;
  bool Allowed(ParallelKind kind) const;
  // The framework's interleaved stages run micro-batches in groups of any size.
  bool GroupsMicroBatches() const;
  void SetFrameworksDefault(const LayoutKey& row, Layout& layout) const;
  std::vector<Layout> With(std::vector<Layout> layouts,
                           std::initializer_list<const char*> keys) const;
  std::vector<Layout> WithoutMistakes(std::vector<Layout> layouts) const;
  std::vector<Layout> Tensors() const;
  std::vector<Layout> Pipelines() const;
  std::vector<Layout> Contexts(const Layout& layout) const;
  std::vector<Layout> Experts(const Layout& layout) const;

  const LayoutQuestion question_;
  const Layout own_;
  plan::Request base_;
  plan::Facts facts_;     // on the devices
  plan::Facts anywhere_;  // of any number of them
  bool has_experts_ = false;
};

}  // namespace stepcast::planner

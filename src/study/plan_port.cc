#include "src/study/plan_port.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "src/forecast/forecast.h"
#include "src/plan/settings.h"
#include "src/report/plan_rows.h"
#include "src/report/step_figures.h"
#include "src/scenario/key_values.h"
#include "src/scenario/load.h"
#include "src/scenario/source_names.h"
#include "src/scenario/topology_file.h"
#include "src/study/training_question.h"
#include "src/study/varied.h"

namespace stepcast::study {
namespace {

using scenario::Scenario;

constexpr const char* kDevices = "cluster.devices";

// A setting that may become a divisor of its old value.
struct Degree {
  const char* key;
  std::int64_t was = 1;
};

// Degrees in the order in which they should change: the first affect the memory and traffic of
// ranks least.
std::vector<Degree> DegreesOf(const plan::Plan& plan) {
  const plan::Parallelism& axes = plan.parallelism;
  return {{"training.micro_batch_size", plan.training.micro_batch_size},
          {"parallelism.virtual_stages", axes.virtual_stages},
          {"parallelism.pipeline", axes.pipeline},
          {"parallelism.context", axes.context},
          {"parallelism.expert", axes.expert},
          {"parallelism.expert_tensor", axes.expert_tensor},
          {"parallelism.tensor", axes.tensor}};
}

// Divisors below `number`, largest first.
std::vector<std::int64_t> SmallerDivisors(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t divisor = number / 2; divisor >= 1; --divisor) {
    if (number % divisor == 0) divisors.push_back(divisor);
  }
  return divisors;
}

bool IsOfThePlan(const std::string& key) {
  return key.starts_with("parallelism.") || key.starts_with("data_parallel.") ||
         key.starts_with("training.") || key.starts_with("experts.");
}

class Porter {
 public:
  explicit Porter(const PortQuestion& question) : question_(question) {}

  Result<PlanPort> Port() {
    auto from = scenario::Load(question_.scenario, question_.set, cache_);
    if (!from) return tl::unexpected(std::move(from.error()));
    from_ = &*from;
    if (auto ready = MoveToCluster(); !ready) return tl::unexpected(std::move(ready.error()));
    degrees_ = DegreesOf(from->plan);
    others_ = OtherSettings();
    if (!Search()) return tl::unexpected(std::move(refusal_));
    PlanPort port;
    port.set = moved_;
    port.set.insert(port.set.end(), found_.begin(), found_.end());
    auto ported = scenario::Load(question_.scenario, port.set, cache_);
    if (!ported) return tl::unexpected(std::move(ported.error()));
    port.ported = *std::move(ported);
    port.changes = Changes(port.ported);
    port.from = *std::move(from);
    return port;
  }

 private:
  bool Has(const char* key) {
    return scenario::WrittenValue(key, question_.scenario, question_.set, cache_).has_value();
  }

  // Settings of every plan that is tried.
  Result<void> MoveToCluster() {
    const auto path = scenario::FindSource(question_.to, "", scenario::SourceKind::kTopology);
    if (!path) {
      return tl::unexpected(Diagnostics{WrongOption(
          "--to", question_.to,
          fmt::format("no topology has this name or path: {}", Quoted(question_.to)),
          "write the path of a topology file, or a name that 'stepcast list topologies' prints")});
    }
    const auto topology = scenario::LoadTopology(*path);
    if (!topology) return tl::unexpected(topology.error());
    moved_ = question_.set;
    for (const char* key :
         {kDevices, "cluster.slow_links", "cluster.slow_devices", "cluster.other_nodes",
          "parallelism.data", "training.gradient_accumulation"}) {
      if (Has(key)) moved_.push_back(Override(key, "null"));
    }
    moved_.push_back(Override("cluster.topology", question_.to));
    const auto* nodes = std::get_if<scenario::NodeDescription>(&topology->description);
    flat_ = nodes == nullptr;
    if (!flat_) {
      const std::int64_t each = nodes->node_type.Count(topology::DeviceKind::kGpu);
      const std::int64_t as_many =
          std::max<std::int64_t>(1, from_->cluster->devices() / std::max<std::int64_t>(1, each));
      moved_.push_back(
          Override("cluster.nodes", fmt::format("{}", question_.nodes.value_or(as_many))));
    } else if (question_.nodes) {
      return tl::unexpected(Diagnostics{WrongOption(
          "--to-nodes", fmt::format("{}", *question_.nodes),
          "--to-nodes cannot be used with a flat topology, which has a fixed number of devices",
          "omit --to-nodes")});
    } else if (Has("cluster.nodes")) {
      moved_.push_back(Override("cluster.nodes", "null"));
    }
    const std::string gpu = topology->gpu ? topology->gpu->name : "";
    other_gpu_ = gpu != (from_->gpu ? from_->gpu->name : "");
    if (other_gpu_ && Has("calibration")) moved_.push_back(Override("calibration", "null"));
    moved_.push_back(Override("training.global_batch_size",
                              fmt::format("{}", from_->plan.training.global_batch_size)));
    return {};
  }

  // Finds the first legal plan with the fewest changed degrees. Plans with idle GPUs are used only
  // if there is no other.
  bool Search() {
    if (SearchDegrees()) return true;
    if (by_rules_ && !flat_) {
      moved_.push_back(Override(kDevices, "plan"));
      if (SearchDegrees()) return true;
    }
    if (by_rules_) {
      refusal_.push_back(
          WrongOption("--to", question_.to,
                      "no plan whose degrees of parallelism divide the degrees of the original "
                      "plan is legal on the new cluster",
                      fmt::format("to search all plans instead, run stepcast plan {} --cluster {}",
                                  question_.scenario, question_.to)));
    }
    return false;
  }

  bool SearchDegrees() {
    std::vector<std::int64_t> values;
    for (const Degree& degree : degrees_) values.push_back(degree.was);
    for (std::size_t changed = 0; changed <= degrees_.size() && by_rules_; ++changed) {
      if (TryFrom(0, changed, values)) return true;
    }
    return false;
  }

  // Tries changes of `changed` degrees, from this one on.
  bool TryFrom(std::size_t degree, std::size_t changed, std::vector<std::int64_t>& values) {
    if (changed == 0) return IsLegal(values);
    if (degree == degrees_.size() || !by_rules_) return false;
    for (const std::int64_t divisor : SmallerDivisors(degrees_[degree].was)) {
      values[degree] = divisor;
      if (TryFrom(degree + 1, changed - 1, values)) return true;
    }
    values[degree] = degrees_[degree].was;
    return TryFrom(degree + 1, changed, values);
  }

  std::vector<std::string> SettingsOf(const std::vector<std::int64_t>& values) const {
    std::vector<std::string> settings;
    for (std::size_t i = 0; i < degrees_.size(); ++i) {
      if (values[i] == degrees_[i].was) continue;
      settings.push_back(Override(degrees_[i].key, fmt::format("{}", values[i])));
    }
    return settings;
  }

  bool IsDegree(const std::string& key) const {
    return key == "parallelism.data" || key == "training.gradient_accumulation" ||
           key == "training.global_batch_size" ||
           std::any_of(degrees_.begin(), degrees_.end(),
                       [&](const Degree& degree) { return key == degree.key; });
  }

  // The plan's other settings as overrides, so that the location of a mistake shows which one is
  // refused.
  std::vector<std::string> OtherSettings() {
    std::map<std::string, std::string> values;
    for (const report::SettingPair& pair :
         report::DifferentSettings(from_->resolved, scenario::Resolved())) {
      values.emplace(pair.key, pair.a);
    }
    std::vector<std::string> settings;
    plan::ForEachSection([&](std::string_view section, const auto& rows) {
      for (const auto& row : rows) {
        const std::string key = fmt::format("{}.{}", section, row.key);
        const auto value = values.find(key);
        if (IsDegree(key) || value == values.end() || !Has(key.c_str())) continue;
        settings.push_back(Override(key, value->second));
      }
    });
    return settings;
  }

  Result<Scenario> Load(const std::vector<std::string>& settings) {
    std::vector<std::string> set = moved_;
    set.insert(set.end(), others_.begin(), others_.end());
    set.insert(set.end(), settings.begin(), settings.end());
    return scenario::Load(question_.scenario, set, cache_);
  }

  // The setting at which a mistake is located, if it may be reset to its default.
  std::string OtherSettingOf(const Diagnostic& mistake) const {
    constexpr std::string_view kOption = "--set ";
    const std::string& place = mistake.location.file;
    if (!place.starts_with(kOption)) return "";
    std::string key = place.substr(kOption.size(), place.find('=') - kOption.size());
    return IsDegree(key) || !IsOfThePlan(key) ? "" : key;
  }

  // Whether the plan with these degrees is legal after refused settings are reset. If so, found_
  // holds its settings.
  bool IsLegal(const std::vector<std::int64_t>& values) {
    std::vector<std::string> settings = SettingsOf(values);
    std::map<std::string, std::string> dropped;
    for (;;) {
      const auto loaded = Load(settings);
      if (loaded) {
        found_ = std::move(settings);
        dropped_ = std::move(dropped);
        return true;
      }
      const Diagnostics& mistakes = loaded.error();
      if (refusal_.empty()) {
        refusal_ = mistakes;
        by_rules_ = std::all_of(mistakes.begin(), mistakes.end(), [](const Diagnostic& mistake) {
          return mistake.code.starts_with("plan.");
        });
        // Mistakes outside the plan remain for any plan.
        if (!by_rules_) return false;
      }
      const auto other =
          std::find_if(mistakes.begin(), mistakes.end(), [&](const Diagnostic& mistake) {
            const std::string key = OtherSettingOf(mistake);
            return !key.empty() && dropped.count(key) == 0;
          });
      if (other == mistakes.end()) return false;
      const std::string key = OtherSettingOf(*other);
      settings.push_back(Override(key, "null"));
      dropped[key] = other->message;
    }
  }

  // Why a degree changed: the rule that it would break with all other settings found.
  std::string WhyNot(const std::string& key, const std::string& value) {
    std::vector<std::string> settings = found_;
    settings.push_back(Override(key, value));
    const auto loaded = Load(settings);
    return loaded ? "the setting depends on another setting that changes"
                  : loaded.error().front().message;
  }

  // Differences between the resolved plans.
  std::vector<report::PortChange> Changes(const Scenario& ported) {
    std::vector<report::PortChange> changes;
    if (other_gpu_) {
      changes.push_back({.key = "calibration",
                         .from = from_->calibration->name,
                         .to = ported.calibration->name,
                         .why = "a calibration profile is valid for only one GPU type"});
    }
    if (const std::int64_t idle = ported.idle_devices(); idle > 0) {
      changes.push_back(
          {.key = kDevices,
           .from = "",
           .to = "plan",
           .why = fmt::format("{} GPUs are idle: {}", idle, refusal_.front().message)});
    }
    for (const report::SettingPair& pair :
         report::DifferentSettings(from_->resolved, ported.resolved)) {
      if (!IsOfThePlan(pair.key)) continue;
      report::PortChange change{.key = pair.key, .from = pair.a, .to = pair.b, .why = ""};
      const auto dropped = dropped_.find(pair.key);
      if (dropped != dropped_.end()) {
        change.why = dropped->second;
      } else if (pair.key == "parallelism.data") {
        change.why = fmt::format(
            "the number of GPUs ({}) divided by the degrees of the other axes of parallelism",
            ported.cluster->devices());
      } else if (pair.key == "training.gradient_accumulation") {
        change.why = fmt::format("the global batch remains {} sequences",
                                 ported.plan.training.global_batch_size);
      } else if (IsDegree(pair.key)) {
        change.why = WhyNot(pair.key, pair.a);
      } else {
        change.why = "the default of this setting depends on other settings";
      }
      changes.push_back(std::move(change));
    }
    return changes;
  }

  const PortQuestion& question_;
  scenario::InputCache cache_;
  const Scenario* from_ = nullptr;
  std::vector<std::string> moved_;  // overrides for the new cluster, with unchanged degrees
  bool other_gpu_ = false;
  bool flat_ = false;  // flat topology, all of whose devices are used
  std::vector<Degree> degrees_;
  std::vector<std::string> others_;             // OtherSettings
  std::vector<std::string> found_;              // in addition to `moved_`
  std::map<std::string, std::string> dropped_;  // keys that were reset, and the reasons
  // Mistakes of the unchanged plan, if they are not rules about plans: no other plan helps.
  Diagnostics refusal_;
  bool by_rules_ = true;
};

std::string ClusterText(const Scenario& scenario) {
  for (const auto& [what, text] : report::Facts(scenario)) {
    if (what == "cluster") return text;
  }
  return "";
}

}  // namespace

Result<PlanPort> PortPlan(const PortQuestion& question) { return Porter(question).Port(); }

Result<report::PortAnswer> ForecastPort(const PlanPort& port) {
  report::PortAnswer answer;
  answer.changes = port.changes;
  answer.set = port.set;
  for (const auto& [scenario, side] :
       {std::pair(&port.from, &answer.from), std::pair(&port.ported, &answer.ported)}) {
    auto figures = forecast::FiguresOf(*scenario);
    if (!figures) return tl::unexpected(std::move(figures.error()));
    side->cluster = ClusterText(*scenario);
    side->forecast = *std::move(figures);
  }
  return answer;
}

}  // namespace stepcast::study

#include "src/scenario/input_schemas.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "src/base/check.h"
#include "src/plan/settings.h"
#include "src/scenario/document.h"
#include "src/scenario/gpu_file.h"
#include "src/scenario/model_file.h"
#include "src/scenario/plan_file.h"
#include "src/scenario/scenario_file.h"
#include "src/scenario/setting_texts.h"
#include "src/scenario/topology_file.h"

namespace stepcast::scenario {
namespace {

using SchemaKind = SchemaValue::Kind;

// Runs a reader so that it asks for all keys that it accepts. A document's contents decide the
// reader's path, so `ways` are YAML documents that together reach every path. Everything else is
// missing in them, and the resulting mistakes are ignored.
template <typename Read>
void LetAsk(Read read, Schema& schema, std::initializer_list<const char*> ways) {
  for (const char* way : ways) {
    Diagnostics faults;
    const auto tree = ParseYaml(way, "", faults);
    STEPCAST_CHECK(tree.has_value(), "each document must be valid YAML");
    read(Node(*tree, "", &schema), faults);
  }
}

void AddModel(Schema& schema) {
  Schema& transformer = schema.AddOther();
  LetAsk(ReadModel, transformer,
         {"{kind: transformer, family: llama}", "{kind: transformer, family: gpt2}",
          "{kind: transformer, family: deepseek}",
          "{kind: transformer, family: mixtral, num_experts: 8, moe_intermediate_size: 64}"});
  transformer.Fix("kind", {.kind = SchemaKind::kWord, .words = {"transformer"}});
  // Mixers, feed-forward layers, blocks and towers have names that the file chooses.
  Schema& described = schema.AddOther();
  LetAsk(ReadModel, described,
         {"{kind: transformer, mixers: {}, feed_forwards: {}, blocks: {}, pattern: A, towers: {}, "
          "mtp: {depth: 1, pattern: A}, encoder: {input: {}}}",
          "{kind: transformer, mixers: {}, feed_forwards: {}, blocks: {}, pattern: A, input: {}, "
          "output: {kind: values}, condition: {}, text: {}}",
          "{kind: transformer, mixers: {}, feed_forwards: {}, blocks: {}, pattern: A, "
          "output: {kind: classes}}"});
  described.Fix("kind", {.kind = SchemaKind::kWord, .words = {"transformer"}});
  LetAsk(ReadModel, schema.AddOther(),
         {"{config: config.json, family: family.yaml}", "{config: config.json}"});
  Schema& layers = schema.AddOther();
  LetAsk(ReadModel, layers, {"kind: layers"});
  layers.Fix("kind", {.kind = SchemaKind::kWord, .words = {"layers"}});
}

void AddTopology(Schema& schema) {
  Schema& nodes = schema.AddOther();
  LetAsk(
      ReadTopology, nodes,
      {"{kind: nodes, fabric: {kind: one-switch}}", "{kind: nodes, fabric: {kind: rail-optimised}}",
       "{kind: nodes, fabric: {kind: fat-tree}}", "{kind: nodes, node: {host: {speed: 1}}}"});
  nodes.At("kind").TakeOnly({.kind = SchemaKind::kWord, .words = {"nodes"}});
  Schema& flat = schema.AddOther();
  LetAsk(ReadTopology, flat, {"kind: flat", "{kind: flat, gpu: h100-sxm}"});
  flat.Fix("kind", {.kind = SchemaKind::kWord, .words = {"flat"}});
}

Schema ScenarioSchema() {
  Schema schema;
  LetAsk(ReadScenarioFile, schema,
         {"{}", "parallelism: {stage_layers: Et|tL}", "data_parallel: {reshard_after_forward: 8}"});
  schema.Fix("stepcast",
             {.kind = SchemaKind::kInteger, .integers = {kFormatVersion, kFormatVersion}});
  // These keys hold the name of a file, or the content itself.
  const auto take_path = [](Schema& source) -> Schema& {
    source.Take({.kind = SchemaKind::kText});
    return source;
  };
  AddModel(take_path(schema.At("model")));
  Schema& cluster = schema.At("cluster");
  AddTopology(take_path(cluster.At("topology")));
  take_path(schema.At("calibration")).TakeMapping();
  Schema& others = cluster.At("other_nodes").TakeItems();
  AddTopology(take_path(others.At("topology")));
  take_path(others.At("calibration")).TakeMapping();

  plan::ForEachSection([&](std::string_view section, const auto& settings) {
    for (const auto& setting : settings) {
      SettingText text = SettingTextOf(section, setting.key);
      schema.At(section)
          .At(setting.key)
          .Describe(std::move(text.values), std::move(text.default_value));
    }
  });
  return schema;
}

Schema PlanSchema() {
  Schema plan;
  LetAsk(ScenarioOfPlan, plan, {"stepcast_plan: 1"});
  plan.Fix("stepcast_plan",
           {.kind = SchemaKind::kInteger, .integers = {kPlanVersion, kPlanVersion}});
  plan.At("scenario").AddOther() = ScenarioSchema();
  return plan;
}

}  // namespace

InputSchema InputSchemaOf(std::string_view kind) {
  if (kind == "scenario") return {ScenarioSchema(), kFormatVersion};
  if (kind == "plan") return {PlanSchema(), kPlanVersion};
  InputSchema input;
  if (kind == "model") {
    AddModel(input.schema);
  } else if (kind == "topology") {
    AddTopology(input.schema);
  } else {
    STEPCAST_CHECK(kind == "gpu", "the kind is known");
    LetAsk(ReadGpu, input.schema, {"{}"});
  }
  return input;
}

}  // namespace stepcast::scenario

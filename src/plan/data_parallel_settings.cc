#include "src/plan/data_parallel_settings.h"

#include <type_traits>
#include <utility>

#include "src/base/check.h"

namespace stepcast::plan {
namespace {

using Given = DataParallelRequest;

constexpr std::int64_t kMostUnits = 1'000'000;
constexpr std::int64_t kMostRanks = 10'000'000;

// The names of an enumeration, by its values.
template <auto given, auto value, const auto& names>
WordSetting Words() {
  using Word = typename std::remove_cvref_t<decltype(std::declval<Given>().*given)>::value_type;
  return {
      .words = names,
      .is_given = [](const Given& request) { return (request.*given).has_value(); },
      .give =
          [](Given& request, std::optional<std::size_t> word) {
            (request.*given).reset();
            if (word) request.*given = static_cast<Word>(*word);
          },
      .apply = [](const Given& request, DataParallel& plan) { plan.*value = *(request.*given); },
      .word = [](const DataParallel& plan) { return static_cast<std::size_t>(plan.*value); }};
}

template <auto given>
OwnSetting Own() {
  return {[](const Given& request) { return (request.*given).has_value(); }};
}

// What is one framework's way: `reference` takes it, and the textbook has none.
SettingUse Taken() {
  return {.framework = Framework::kReference, .first_stage = 4, .last_stage = 3};
}

SettingUse Of(Framework framework, const char* note = "", std::vector<const char*> tried = {}) {
  return {.framework = framework, .note = note, .tried = std::move(tried)};
}

SettingUse At(Framework framework, int first, int last, const char* note = "",
              std::vector<const char*> tried = {}) {
  return {.framework = framework,
          .first_stage = first,
          .last_stage = last,
          .note = note,
          .tried = std::move(tried)};
}

std::vector<DataParallelSetting> Rows() {
  using enum Framework;
  const std::vector<const char*> kBoth = {"false", "true"};
  return {
      {.key = "overlap",
       .type = SwitchSetting{&Given::overlap, &DataParallel::overlap},
       .uses = {Of(kReference), Of(kMegatron), At(kDeepSpeed, 1, 3), Of(kInternEvo)},
       .values = "`false`: communicate after the whole backward (megatron: `overlap_grad_reduce`, "
                 "deepspeed: `overlap_comm`, internevo: `overlap_sync_grad`)",
       .default_value = "`true`; deepspeed at stages 1 and 2: `false`"},
      {.key = "bucket_size",
       .type = Own<&Given::bucket_size>(),
       .uses = {Of(kReference), Of(kDdp), Of(kMegatron, "with overlap"), Of(kInternEvo),
                At(kNanotron, 0, 0, "`ddp_bucket_cap_mb`")},
       .values =
           "bytes; `0 B`: one collective per tensor; `unit`: one per unit (reference, stage 3)",
       .default_value =
           "internevo: 512 Mi gradients; megatron: the gradients of 40 million parameters, or of 1 "
           "million per rank if that is more; others 25 MiB; reference at stage 3: `unit`; "
           "reference without overlap at stages 0 to 2: everything in one"},
      {.key = "first_bucket_size",
       .type = Own<&Given::first_bucket_size>(),
       .uses = {Of(kReference), Of(kDdp)},
       .values = "bytes; the limit of the first bucket to be ready",
       .default_value =
           "reference: `bucket_size`. ddp: 1 MiB; since torch 2.0, `bucket_size` where "
           "that is given"},
      {.key = "prefetch",
       .type = CountSetting{&Given::prefetch, &DataParallel::prefetch, 0, kMostUnits},
       .uses = {At(kReference, 3, 3, "", {"0", "1", "2", "4"}),
                Of(kFsdp2, "", {"0", "1", "2", "3", "4"})},
       .values = "units gathered ahead; `0`: none",
       .default_value = "`1`"},
      {.key = "reshard_after_forward",
       .type = Own<&Given::reshard_after_forward>(),
       .uses = {At(kReference, 3, 3, "", kBoth), Of(kFsdp2)},
       .values =
           "`true`: freed after forward, gathered again for backward; `false`: kept; an "
           "integer k, a divisor of `shard_group_size`: kept in shards over groups of k ranks "
           "(1 means `false`, the whole group `true`)",
       .default_value = "`true`; `false` for fsdp2 at stage 2"},
      {.key = "accumulate_unsharded",
       .type = SwitchSetting{&Given::accumulate_unsharded, &DataParallel::accumulate_unsharded},
       .uses = {At(kReference, 2, 3), Of(kFsdp1), Of(kFsdp2)},
       .values = "`true`: communicate gradients once a step and keep them whole",
       .default_value = "`false`"},
      {.key = "shard_group_size",
       .type =
           CountSetting{&Given::shard_group_size, &DataParallel::shard_group_size, 1, kMostRanks},
       .uses = {At(kReference, 1, 3), Of(kFsdp1), Of(kFsdp2),
                At(kMegatron, 1, 1, "ranks of a distributed optimizer's instance"),
                Of(kInternEvo, "`zero1`")},
       .values =
           "ranks that share one copy of the states; a divisor of `data`; smaller than `data` "
           "is hybrid sharding",
       .default_value = "`data`"},
      {.key = "overlap_param_gather",
       .type = SwitchSetting{&Given::overlap_param_gather, &DataParallel::overlap_param_gather},
       .uses = {Taken(), At(kMegatron, 1, 1, "", kBoth)},
       .values = "`true`: the distributed optimizer gathers parameters bucket by bucket during the "
                 "next forward",
       .default_value = "`overlap`"},
      {.key = "gradient_as_bucket_view",
       .type =
           SwitchSetting{&Given::gradient_as_bucket_view, &DataParallel::gradient_as_bucket_view},
       .uses = {Taken(), Of(kDdp, "", kBoth)},
       .values = "`true`: gradients are views of the buckets, nothing is copied back",
       .default_value = "`false`"},
      {.key = "find_unused_parameters",
       .type = SwitchSetting{&Given::find_unused_parameters, &DataParallel::find_unused_parameters},
       .uses = {Taken(), Of(kDdp)},
       .values = "`true`: buckets keep definition order, and a usage map is reduced",
       .default_value = "`false`"},
      {.key = "comm_hook",
       .type = Words<&Given::comm_hook, &DataParallel::comm_hook, kCommHookNames>(),
       .uses = {Of(kDdp)},
       .values = "what takes the place of a bucket's all-reduce: `none`, `fp16_compress`, "
                 "`bf16_compress` (sent in 16 bits; with `parameter_dtype: fp32`) or `powerSGD` "
                 "(low-rank factors)",
       .default_value = "`none`"},
      {.key = "powersgd",
       .type = Own<&Given::powersgd>(),
       .uses = {Of(kDdp, "with `comm_hook: powerSGD`")},
       .values = "a mapping, below",
       .default_value = "the defaults below"},
      {.key = "backward_prefetch",
       .type = Words<&Given::backward_prefetch, &DataParallel::backward_prefetch,
                     kBackwardPrefetchNames>(),
       .uses = {Taken(), Of(kFsdp1, "", {"pre", "post", "none"})},
       .values = "when the next unit of backward is gathered: `pre` (before the present unit's "
                 "gradients), `post` (after them) or `none` (when it is needed)",
       .default_value = "`pre`; before torch 2.0 `none`"},
      {.key = "forward_prefetch",
       .type = SwitchSetting{&Given::forward_prefetch, &DataParallel::forward_prefetch},
       .uses = {Taken(), Of(kFsdp1, "", kBoth)},
       .values = "`true`: the next unit of forward is asked for beside the present one",
       .default_value = "`false`"},
      {.key = "limit_all_gathers",
       .type = SwitchSetting{&Given::limit_all_gathers, &DataParallel::limit_all_gathers},
       .uses = {Taken(), Of(kFsdp1, "", kBoth)},
       .values = "`true`: the host waits so that about two freed units are pending at most",
       .default_value = "`true`; before torch 2.1 `false`"},
      {.key = "units",
       .type = Words<&Given::units, &DataParallel::units, kWrappedUnitsNames>(),
       .uses = {Taken(), Of(kFsdp1), Of(kFsdp2)},
       .values = "what is wrapped: `block` (every block, the rest is the root) or `layer` "
                 "(embedding and head, too, each by itself, unless they share a tensor)",
       .default_value = "`block`"},
      {.key = "use_orig_params",
       .type = SwitchSetting{&Given::use_orig_params, &DataParallel::use_orig_params},
       .uses = {Taken(), Of(kFsdp1)},
       .values = "`true`: since torch 2.1, tensors of a flat parameter begin at multiples of 16 B, "
                 "and gradients need no padding",
       .default_value = "`false`"},
      {.key = "deepspeed",
       .type = Own<&Given::deepspeed>(),
       .uses = {Of(kDeepSpeed)},
       .values = "a mapping, below",
       .default_value = "the defaults below"},
  };
}

}  // namespace

bool DataParallelSetting::IsGiven(const DataParallelRequest& request) const {
  return std::visit(
      [&](const auto& setting) {
        if constexpr (requires { setting.given; }) {
          return (request.*setting.given).has_value();
        } else {
          return setting.is_given(request);
        }
      },
      type);
}

const SettingUse* DataParallelSetting::UseOf(Framework framework) const {
  for (const SettingUse& use : uses) {
    if (use.framework == framework) return &use;
  }
  return nullptr;
}

bool DataParallelSetting::HasEffect(Framework framework, int stage) const {
  const SettingUse* use = UseOf(framework);
  return use != nullptr && use->HasEffect(stage);
}

std::span<const DataParallelSetting> DataParallelSettings() {
  static const std::vector<DataParallelSetting> rows = Rows();
  return rows;
}

const DataParallelSetting* FindDataParallelSetting(std::string_view key) {
  for (const DataParallelSetting& setting : DataParallelSettings()) {
    if (setting.key == key) return &setting;
  }
  return nullptr;
}

bool Has(Framework framework, std::string_view key) {
  const DataParallelSetting* setting = FindDataParallelSetting(key);
  STEPCAST_CHECK(setting != nullptr, "the setting is a row of the table");
  return setting->UseOf(framework) != nullptr;
}

void ApplyGiven(const DataParallelRequest& request, DataParallel& plan) {
  for (const DataParallelSetting& setting : DataParallelSettings()) {
    if (!setting.IsGiven(request)) continue;
    std::visit(
        [&](const auto& type) {
          if constexpr (requires { type.given; }) {
            plan.*type.value = *(request.*type.given);
          } else if constexpr (requires { type.apply; }) {
            type.apply(request, plan);
          }
        },
        setting.type);
  }
}

}  // namespace stepcast::plan

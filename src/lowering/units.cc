#include "src/lowering/units.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "fmt/format.h"

namespace stepcast::lowering {
namespace {

// The union of the lists of the unit's layers, ascending.
std::vector<int> Owned(const model::Model& model, const Unit& unit,
                       std::vector<int> model::Layer::*used) {
  std::vector<int> owned;
  for (const int layer : unit.layers) {
    const std::vector<int>& own = model.layers[layer].*used;
    owned.insert(owned.end(), own.begin(), own.end());
  }
  std::sort(owned.begin(), owned.end());
  owned.erase(std::unique(owned.begin(), owned.end()), owned.end());
  return owned;
}

// Groups layers by `unit_of_layer` (labels less than twice the number of layers). Units are ordered
// by their first layers.
Units Group(const model::Model& model, const std::vector<int>& unit_of_layer) {
  Units result;
  std::vector<int> unit_of_label(2 * model.layers.size(), -1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    int& unit = unit_of_label[unit_of_layer[i]];
    if (unit < 0) {
      unit = static_cast<int>(result.units.size());
      result.units.push_back(
          {.name = model.layers[i].name, .layers = {}, .tensors = {}, .frozen = {}});
    }
    result.units[unit].layers.push_back(static_cast<int>(i));
    result.of_layer.push_back(unit);
  }
  for (Unit& unit : result.units) {
    unit.tensors = Owned(model, unit, &model::Layer::tensors);
    unit.frozen = Owned(model, unit, &model::Layer::frozen);
    for (const int tensor : unit.tensors) unit.elements += model.tensors[tensor].elements;
    if (unit.layers.size() > 1) unit.name = "root";
  }
  return result;
}

// Layers with a label of at least the number of layers make up a root.
Units GroupWithRoot(const model::Model& model, const std::vector<int>& label) {
  Units units = Group(model, label);
  for (Unit& unit : units.units) {
    const int chunk = label[unit.layers.front()] - static_cast<int>(model.layers.size());
    unit.root = chunk >= 0;
    if (unit.root) {
      unit.name = chunk == 0 ? "root" : fmt::format("root of chunk {}", chunk);
    } else if (unit.layers.size() > 1) {
      unit.name =
          model.layers[unit.layers.front()].name + " to " + model.layers[unit.layers.back()].name;
    }
  }
  return units;
}

}  // namespace

Units UnitPerLayer(const model::Model& model) {
  std::vector<int> label(model.layers.size());
  std::iota(label.begin(), label.end(), 0);
  std::vector<int> first_user(model.tensors.size(), -1);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const int tensor : model.layers[i].tensors) {
      if (first_user[tensor] < 0) {
        first_user[tensor] = static_cast<int>(i);
      } else {
        // A tied tensor joins this layer, and all layers with its label, to the unit of the first
        // user.
        const int from = label[i], to = label[first_user[tensor]];
        std::replace(label.begin(), label.end(), from, to);
      }
    }
  }
  return Group(model, label);
}

Units WrappedUnitsOf(const model::Model& model, const plan::DataParallel& plan,
                     const std::vector<int>& chunk_begins) {
  std::vector<int> users(model.tensors.size(), 0), of_frozen(model.frozen.size(), 0);
  for (const model::Layer& layer : model.layers) {
    for (const int tensor : layer.tensors) ++users[tensor];
    for (const int tensor : layer.frozen) ++of_frozen[tensor];
  }
  std::vector<int> label;
  std::int64_t block = 0;
  int first_of_unit = 0;
  std::size_t chunks = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const model::Layer& layer = model.layers[i];
    if (chunks < chunk_begins.size() && chunk_begins[chunks] == static_cast<int>(i)) {
      ++chunks;
      block = 0;
    }
    label.push_back(static_cast<int>(model.layers.size() + chunks) - 1);
    if (plan.units == plan::WrappedUnits::kModel) continue;
    const bool shares = std::any_of(layer.tensors.begin(), layer.tensors.end(),
                                    [&](int tensor) { return users[tensor] > 1; }) ||
                        std::any_of(layer.frozen.begin(), layer.frozen.end(),
                                    [&](int tensor) { return of_frozen[tensor] > 1; });
    if (layer.kind == model::LayerKind::kBlock) {
      if (block++ % plan.unit_blocks == 0) first_of_unit = static_cast<int>(i);
      label[i] = first_of_unit;
    } else if (plan.units == plan::WrappedUnits::kLayer && !shares) {
      label[i] = static_cast<int>(i);
    }
  }
  return GroupWithRoot(model, label);
}

std::vector<Bucket> BucketPerUnit(const Units& units, std::vector<int>& order) {
  std::vector<std::size_t> unit_of_tensor(order.size()), missing, complete;
  for (const Unit& unit : units.units) {
    for (const int tensor : unit.tensors) unit_of_tensor[tensor] = missing.size();
    missing.push_back(unit.tensors.size());
  }
  std::vector<std::size_t> place(units.units.size());  // among the complete ones
  for (const int tensor : order) {
    const std::size_t unit = unit_of_tensor[tensor];
    if (--missing[unit] > 0) continue;
    place[unit] = complete.size();
    complete.push_back(unit);
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return place[unit_of_tensor[a]] < place[unit_of_tensor[b]];
  });
  std::vector<Bucket> buckets;
  std::span<const int> rest = order;
  for (const std::size_t unit : complete) {
    const std::size_t size = units.units[unit].tensors.size();
    buckets.push_back({.tensors = rest.first(size), .elements = units.units[unit].elements});
    rest = rest.subspan(size);
  }
  return buckets;
}

UnitOrder::UnitOrder(const Units& units, const std::vector<bool>& has_parameters)
    : UnitOrder(units, has_parameters, 0, static_cast<int>(units.of_layer.size())) {}

UnitOrder::UnitOrder(const Units& units, const std::vector<bool>& has_parameters, int first,
                     int end) {
  for (std::size_t i = 0; i < units.units.size(); ++i) {
    const int unit = static_cast<int>(i);
    const bool own = units.units[i].layers.front() >= first && units.units[i].layers.front() < end;
    const bool block = own && has_parameters[i] && !units.units[i].root;
    place.push_back(block ? static_cast<int>(blocks.size()) : -1);
    if (block) blocks.push_back(unit);
    if (own && units.units[i].root) root = unit;
  }
}

int UnitOrder::Later(int unit, std::int64_t distance) const {
  const auto count = static_cast<std::int64_t>(blocks.size());
  if (unit != root && place[unit] < 0) return -1;
  const std::int64_t at = (unit == root && distance < 0 ? count : place[unit]) + distance;
  return at >= 0 && at < count ? blocks[at] : -1;
}

}  // namespace stepcast::lowering

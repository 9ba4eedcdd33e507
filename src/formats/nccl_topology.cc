#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "pugixml.hpp"
#include "src/base/files.h"
#include "src/base/printable.h"
#include "src/base/quantity.h"
#include "src/base/text_lines.h"
#include "src/formats/gpu_models.h"
#include "src/formats/topology_import.h"

namespace stepcast::formats {
namespace {

using topology::DeviceKind;
using topology::LinkedPair;
using topology::LinkKind;
using Xml = pugi::xml_node;

constexpr int kDeepest = 64;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Whether NCCL writes this attribute, relevant here or not.
bool Known(std::string_view element, std::string_view attribute) {
  static const std::map<std::string_view, std::set<std::string_view>> known = {
      {"system", {"version", "name"}},
      {"cpu",
       {"numaid", "affinity", "affinity_offset", "arch", "vendor", "familyid", "modelid",
        "host_hash"}},
      {"pci",
       {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed",
        "link_width", "keep"}},
      {"gpu", {"dev", "sm", "rank", "gdr", "mlopart", "gcn", "arch", "keep", "nvlink_bw"}},
      {"nvlink", {"target", "count", "tclass"}},
      {"xgmi", {"target", "count", "tclass"}},
      {"c2c", {"bw", "count"}},
      {"pcilink", {"target"}},
      {"nic", {"keep"}},
      {"net",
       {"name", "dev", "speed", "port", "guid", "maxconn", "gdr", "latency", "keep", "coll",
        "pciPath", "net", "rail", "forceFlush", "asic", "plane"}},
  };
  const auto found = known.find(element);
  return found != known.end() && found->second.contains(attribute);
}

struct Cpu {
  std::string host;
  int numa = 0;
  std::optional<topology::Processor> processor;  // none if the input does not state it
  Location location;
  int index = 0;
};

// A PCIe device, and its connection toward the CPU.
struct Place {
  DeviceKind kind = DeviceKind::kPcieSwitch;
  std::string bus;
  std::string host;
  int parent = -1;  // a place; -1: `cpu`
  int cpu = -1;     // -1: nothing
  Bandwidth up;     // of the connection to the parent
  std::string vendor_device;
  Location location;
  Xml element;
  bool gone = false;  // merged: a wire, or part of the switch above
  // GPUs: rank or device number; NICs: device number. Devices without a number come last.
  std::int64_t order = 0;
  Bandwidth speed;  // of a NIC's port
  std::string name;
  int index = 0;
};

class Reader : TopologyImport {
 public:
  Reader(std::string_view text, const std::string& file, const ImportOptions& options)
      : TopologyImport(options), text_(text), lines_(text, file) {}

  Result<ImportedTopology> Run() {
    if (!Parse()) return Mistakes();
    ReadSystem();
    if (Of(DeviceKind::kGpu).empty()) {
      if (!mistakes_.empty()) return Mistakes();
      Report("topology.impossible", LocationOf(root_), "the file has no GPU",
             "write the file again: set NCCL_TOPO_DUMP_FILE in a job that uses all GPUs of a node");
      return Mistakes();
    }
    RemoveWires();
    ChooseNics();
    Number();
    const GpuModel* model = ChooseGpu();
    LinkPcie();
    LinkNvLinks(model);
    LinkCpus();
    if (!mistakes_.empty()) return Mistakes();
    CheckConnections();
    if (!mistakes_.empty()) return Mistakes();
    for (const Cpu& cpu : cpus_) {
      if (cpu.processor) node_type_.processor = *cpu.processor;
    }
    return Finish(LocationOf(root_));
  }

 private:
  // The position of an element's '<'.
  Location LocationOf(const Xml& element) const {
    const std::ptrdiff_t offset = element.offset_debug();
    return lines_.At(offset > 0 ? static_cast<std::size_t>(offset) - 1 : 0);
  }

  struct Begun {
    std::string name;
    int line = 0;
  };
  // The name after a '<', cut for messages.
  std::string_view NameAt(std::size_t tag) const {
    constexpr std::size_t kLongest = 128;
    const std::string_view text = text_.substr(tag + 1, kLongest);
    return text.substr(0, std::min(text.find_first_of(" \t\r\n/<>"), text.size()));
  }
  // The innermost element that is still open at the end of the text.
  std::optional<Begun> LastOpen() const {
    std::vector<std::size_t> open;  // where their tags begin
    for (std::size_t at = text_.find('<'); at != std::string_view::npos; at = text_.find('<', at)) {
      if (text_.substr(at).starts_with("<!--")) {
        at = text_.find("-->", at);
        continue;
      }
      const std::size_t end = text_.find_first_of("<>", at + 1);
      const bool cut = end == std::string_view::npos || text_[end] == '<';
      if (text_.substr(at).starts_with("</")) {
        if (!cut && !open.empty()) open.pop_back();
      } else if (!text_.substr(at).starts_with("<?") && !text_.substr(at).starts_with("<!")) {
        if (!NameAt(at).empty() && (cut || text_[end - 1] != '/')) open.push_back(at);
      }
      ++at;
    }
    if (open.empty()) return std::nullopt;
    return Begun{std::string(NameAt(open.back())), lines_.At(open.back()).line};
  }

  bool EndsInsideATag() const {
    const std::size_t last = text_.rfind('<');
    return last != std::string_view::npos && text_.find('>', last) == std::string_view::npos;
  }

  // Elements are compared in pairs, so their number is limited. A node of eight GPUs has some 50,
  // and a rack that is one machine some thousands.
  bool IsOfOneMachine() {
    constexpr std::size_t kMostElements = 20'000;
    std::size_t elements = 0;
    Xml at = root_;
    while (at) {
      if (at.type() == pugi::node_element && ++elements > kMostElements) {
        Report("topology.impossible", LocationOf(at),
               fmt::format("the file has more than {} elements", kMostElements),
               "use the file that NCCL writes if NCCL_TOPO_DUMP_FILE is set");
        return false;
      }
      if (Xml below = at.first_child()) {
        at = below;
        continue;
      }
      while (at && at != root_ && !at.next_sibling()) at = at.parent();
      at = at == root_ ? Xml() : at.next_sibling();
    }
    return true;
  }

  bool Parse() {
    if (!CheckText(text_, lines_.At(0).file, mistakes_)) return false;
    const pugi::xml_parse_result result =
        document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (result.status == pugi::status_ok) {
      root_ = document_.document_element();
      if (!IsOfOneMachine()) return false;
      for (Xml next = root_.next_sibling(); next; next = next.next_sibling()) {
        if (next.type() != pugi::node_element) continue;
        Report("xml.syntax", LocationOf(next),
               fmt::format("the file has a second root element: <{}>", Quoted(next.name(), "")),
               "keep only one root element, because a file describes one machine");
        return false;
      }
      return true;
    }
    const auto offset = static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0));
    const std::size_t end = text_.find_last_not_of(" \t\r\n") + 1;
    const Location location = lines_.At(std::min(offset, text_.size()));
    if (result.status == pugi::status_no_document_element) {
      Report("xml.syntax", location, "the file contains no XML element",
             "use the file that NCCL writes if NCCL_TOPO_DUMP_FILE is set");
    } else if (const auto open = LastOpen(); open && (offset + 1 >= end || EndsInsideATag())) {
      Report("xml.syntax", location,
             fmt::format("the XML is incomplete: the element <{}> in line {} has no end tag",
                         Quoted(open->name, ""), open->line),
             "copy the complete file again");
    } else {
      std::string what = result.description();
      if (!what.empty()) what[0] = Lower(what.substr(0, 1))[0];
      Report("xml.syntax", location,
             fmt::format("the XML is not well-formed: {}", Quoted(what, "")),
             "correct the XML at or before the position of the error");
    }
    return false;
  }

  void CheckNames(const Xml& element) {
    for (const pugi::xml_attribute attribute : element.attributes()) {
      if (Known(element.name(), attribute.name())) continue;
      const Location at = LocationOf(element);
      Note(fmt::format("line {}: the unknown attribute {} of <{}> was ignored", at.line,
                       Quoted(attribute.name()), element.name()));
    }
  }
  void NoteElement(const Xml& element) {
    if (element.type() != pugi::node_element) return;
    const std::string_view name = element.name();
    if (name == "pcilink" || name == "gin" || name == "rma") return;  // the same links once more
    Note(fmt::format("line {}: the unknown element <{}> was ignored", LocationOf(element).line,
                     Quoted(name, "")));
  }

  // An integer attribute; nothing if it is missing.
  std::optional<std::int64_t> Integer(const Xml& element, const char* name) {
    const pugi::xml_attribute attribute = element.attribute(name);
    if (!attribute) return std::nullopt;
    const std::string_view value = attribute.value();
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error == std::errc() && end == value.data() + value.size()) return number;
    Report("topology.bad-attribute", LocationOf(element),
           fmt::format("the attribute {} of <{}> must be an integer: {}", Quoted(name),
                       element.name(), Quoted(value)),
           "write an integer in decimal digits");
    return std::nullopt;
  }

  void ReadSystem() {
    const std::string_view name = root_.name();
    if (name != "system") {
      Report("topology.not-nccl", LocationOf(root_),
             fmt::format("the root element of a topology must be <system>, not "
                         "<{}>",
                         Quoted(name, "")),
             name == "graphs" ? "the file was written with NCCL_GRAPH_DUMP_FILE; use the file that "
                                "NCCL writes if NCCL_TOPO_DUMP_FILE is set"
                              : "use the file that NCCL writes if NCCL_TOPO_DUMP_FILE is set");
      return;
    }
    CheckNames(root_);
    for (const Xml& element : root_.children()) {
      if (std::string_view(element.name()) == "cpu") {
        ReadCpu(element);
      } else if (std::string_view(element.name()) == "pci") {
        ReadPci(element, -1, -1, "", 1);
      } else {
        NoteElement(element);
      }
    }
  }

  // The processor type as NCCL distinguishes it (NVIDIA/nccl, src/graph/topo.cc); nothing if
  // unknown.
  static std::optional<topology::Processor> ProcessorOf(const Xml& cpu) {
    using topology::Processor;
    const std::string_view arch = cpu.attribute("arch").value();
    const std::string_view vendor = cpu.attribute("vendor").value();
    if (arch == "ppc64") return Processor::kPower9;
    if (arch == "arm64") return Processor::kArm;
    if (arch == "x86_64" && vendor == "AuthenticAMD") return Processor::kAmd;
    if (arch != "x86_64" || vendor != "GenuineIntel") return std::nullopt;
    constexpr int kSkylake = 0x55;
    constexpr int kSapphireRapids = 0x8f;
    constexpr int kEmeraldRapids = 0xcf;
    const int model = cpu.attribute("modelid").as_int();
    if (cpu.attribute("familyid").as_int() != 6 || model < kSkylake) {
      return Processor::kIntelBroadwell;
    }
    if (model < kSapphireRapids) return Processor::kIntelSkylake;
    return model < kEmeraldRapids ? Processor::kIntelSapphireRapids
                                  : Processor::kIntelEmeraldRapids;
  }

  void ReadCpu(const Xml& element) {
    CheckNames(element);
    Cpu cpu;
    cpu.host = element.attribute("host_hash").value();
    const auto numa = Integer(element, "numaid");
    if (!element.attribute("numaid")) {
      Report("topology.bad-attribute", LocationOf(element),
             "the element <cpu> has no attribute 'numaid'",
             "add the attribute 'numaid' with the number of the CPU");
    }
    cpu.numa = static_cast<int>(numa.value_or(0));
    cpu.processor = ProcessorOf(element);
    cpu.location = LocationOf(element);
    const int index = static_cast<int>(cpus_.size());
    cpus_.push_back(cpu);
    for (const Xml& child : element.children()) {
      const std::string_view name = child.name();
      if (name == "pci") {
        ReadPci(child, -1, index, cpu.host, 1);
      } else if (name == "nic") {
        // NCCL found no PCIe device for this NIC.
        ReadNic(child, -1, index, cpu.host, "", std::nullopt);
      } else {
        NoteElement(child);
      }
    }
  }

  // The connection of a PCIe device. Values missing in /sys get NCCL's defaults.
  Bandwidth Connection(const Xml& pci) {
    constexpr int kDefaultLanes = 16;
    constexpr double kDefaultRate = 8;
    const bool told = *pci.attribute("link_width").value() != '\0';
    const std::int64_t lanes = told ? Integer(pci, "link_width").value_or(0) : 0;
    const std::string_view speed = pci.attribute("link_speed").value();
    double rate = 0;
    std::from_chars(speed.data(), speed.data() + speed.size(), rate);
    if (lanes < 0 || lanes > 32) {
      Report("topology.bad-attribute", LocationOf(pci),
             fmt::format("the attribute 'link_width' of <pci> must be from 1 to 32 lanes: '{}'",
                         lanes),
             "");
      return PcieBandwidth(kDefaultRate, kDefaultLanes);
    }
    if (lanes == 0 || !(rate > 0 && rate <= 256)) {
      unknown_pcie_ = true;
    }
    return PcieBandwidth(rate > 0 && rate <= 256 ? rate : kDefaultRate,
                         lanes > 0 ? static_cast<int>(lanes) : kDefaultLanes);
  }

  void ReadPci(const Xml& element, int parent, int cpu, const std::string& host, int depth) {
    if (depth > kDeepest) {
      if (!too_deep_) {
        Report("xml.too-deep", LocationOf(element),
               fmt::format("PCIe devices are nested more than {} levels deep", kDeepest), "");
      }
      too_deep_ = true;
      return;
    }
    CheckNames(element);
    Place place;
    place.bus = Lower(element.attribute("busid").value());
    place.host = host;
    place.parent = parent;
    place.cpu = cpu;
    place.location = LocationOf(element);
    place.element = element;
    if (place.bus.empty()) {
      Report("topology.bad-attribute", place.location, "the element <pci> has no attribute 'busid'",
             "add the attribute 'busid' with the address of the device");
      return;
    }
    place.up = Connection(element);
    place.vendor_device = fmt::format("{} {}", Lower(element.attribute("vendor").value()),
                                      Lower(element.attribute("device").value()));
    const std::string kind = Lower(element.attribute("class").value());
    const Xml gpu = element.child("gpu");
    const Xml nic = element.child("nic");
    const auto unique = [&] {
      if (by_bus_.emplace(std::pair(host, place.bus), places_.size()).second) return true;
      Report("topology.impossible", place.location,
             fmt::format("two devices have the same bus id: {}", Quoted(place.bus)),
             "write a different bus id for each PCIe device");
      return false;
    };
    if (gpu || (kind.starts_with("0x03") && !element.child("pci"))) {
      if (!unique()) return;
      place.kind = DeviceKind::kGpu;
      constexpr std::int64_t kNumbers = 1'000'000;  // more than there are GPUs
      place.order = 2 * kNumbers;
      if (gpu) {
        CheckNames(gpu);
        const auto rank = Integer(gpu, "rank");
        const auto dev = Integer(gpu, "dev");
        if (rank && *rank >= 0) {
          place.order = *rank;
        } else if (dev && *dev >= 0) {
          place.order = kNumbers + *dev;
        }
      }
      places_.push_back(std::move(place));
      return;
    }
    if (nic) {
      ReadNic(nic, parent, cpu, host, place.bus, place.up);
      return;
    }
    if (kind.starts_with("0x02") && !element.child("pci")) {
      if (!unique()) return;
      place.kind = DeviceKind::kNic;
      place.name = place.bus;
      place.order = std::numeric_limits<std::int64_t>::max();
      places_.push_back(std::move(place));
      return;
    }
    // A bridge, or an irrelevant device such as the PCIe side of an NVSwitch.
    if (!element.child("pci") || !unique()) return;
    const int index = static_cast<int>(places_.size());
    places_.push_back(std::move(place));
    for (const Xml& child : element.children()) {
      if (std::string_view(child.name()) == "pci") {
        ReadPci(child, index, cpu, host, depth + 1);
      } else {
        NoteElement(child);
      }
    }
  }

  // A port is a NIC; the ports of one card share its connection.
  void ReadNic(const Xml& element, int parent, int cpu, const std::string& host,
               const std::string& bus, std::optional<Bandwidth> up) {
    CheckNames(element);
    std::vector<Xml> ports;
    for (const Xml& net : element.children("net")) {
      CheckNames(net);
      // NCCL does not use a NIC without a device number or one merged into another.
      if (!net.attribute("dev") || net.attribute("net").as_int(1) == 0) continue;
      ports.push_back(net);
    }
    for (const Xml& net : ports) {
      Place place;
      place.kind = DeviceKind::kNic;
      place.bus = bus;
      place.host = host;
      place.parent = parent;
      place.cpu = cpu;
      place.location = LocationOf(net);
      place.element = net;
      place.order = Integer(net, "dev").value_or(0);
      place.name =
          net.attribute("name") ? net.attribute("name").value() : fmt::format("{}", place.order);
      constexpr std::int64_t kBytesPerMegabit = 125'000;
      constexpr std::int64_t kMostMegabits = 100'000'000;
      if (const auto speed = Integer(net, "speed")) {
        if (*speed <= 0 || *speed > kMostMegabits) {
          if (options_.nic_speed) {
            place.speed = *options_.nic_speed;
          } else {
            Report("topology.impossible", place.location,
                   fmt::format("the attribute 'speed' of <net> must be from 1 to {} Mbit/s: {}",
                               kMostMegabits, *speed),
                   "write the port's speed (400000 for 400 Gbps), or add --nic-speed 400Gbps");
          }
        } else {
          place.speed = Bandwidth::BytesPerSecond(*speed * kBytesPerMegabit);
        }
      }
      // Without PCIe in between, the port is the limit.
      const Bandwidth whole = up.value_or(place.speed);
      place.up = Bandwidth::BytesPerSecond(whole.bytes_per_second() /
                                           (up ? static_cast<std::int64_t>(ports.size()) : 1));
      if (!up && place.up == Bandwidth()) place.up = PcieBandwidth(8, 16);
      if (up && ports.size() > 1) {
        Note(fmt::format("the {} ports of the card at {} share one PCIe connection equally",
                         ports.size(), bus));
      }
      places_.push_back(std::move(place));
    }
  }

  std::vector<int> Of(DeviceKind kind) const {
    std::vector<int> indices;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].kind == kind && !places_[i].gone) indices.push_back(static_cast<int>(i));
    }
    return indices;
  }
  Place& At(int place) { return places_[static_cast<std::size_t>(place)]; }

  static bool IsBroadcom(const std::string& vendor_device) {
    return vendor_device == "0x1000 0xc010" || vendor_device == "0x1000 0xc030";
  }

  void RemoveWires() {
    // Children come after their parents, so counts are final from last to first.
    std::vector<int> children(places_.size());
    for (int i = static_cast<int>(places_.size()) - 1; i >= 0; --i) {
      Place& place = At(i);
      if (place.kind != DeviceKind::kPcieSwitch) {
        if (place.parent >= 0) ++children[static_cast<std::size_t>(place.parent)];
        continue;
      }
      const int below = children[static_cast<std::size_t>(i)];
      const bool part_of_switch = place.parent >= 0 && IsBroadcom(place.vendor_device) &&
                                  At(place.parent).vendor_device == place.vendor_device;
      place.gone = below <= 1 || part_of_switch;
      if (place.parent >= 0) {
        children[static_cast<std::size_t>(place.parent)] += place.gone ? below : 1;
      }
    }
    // From parents to children: each is attached to the nearest remaining ancestor.
    for (std::size_t i = 0; i < places_.size(); ++i) {
      Place& place = places_[i];
      while (place.parent >= 0 && At(place.parent).gone) {
        const Place& wire = At(place.parent);
        const bool inside = IsBroadcom(wire.vendor_device);
        if (!inside) place.up = std::min(place.up, wire.up);
        place.parent = wire.parent;
      }
    }
  }

  void ChooseNics() {
    if (!options_.nics.empty() && !options_.AllNics()) LeaveOutOtherNics();
    Bandwidth fastest;
    for (const int nic : Of(DeviceKind::kNic)) {
      Place& place = At(nic);
      if (place.speed == Bandwidth() && options_.nic_speed) place.speed = *options_.nic_speed;
      if (place.speed == Bandwidth() && !place.element.attribute("speed")) {
        Report("topology.no-speed", place.location,
               fmt::format("the file does not specify the speed of a NIC: {}", Quoted(place.name)),
               "add --nic-speed 400Gbps, or write the topology in a job on several nodes");
      }
      fastest = std::max(fastest, place.speed);
    }
    for (const int nic : Of(DeviceKind::kNic)) {
      Place& place = At(nic);
      if (place.speed == fastest || options_.AllNics()) continue;
      place.gone = true;
      Note(
          fmt::format("NIC {} ({}) is ignored, because nodes communicate over the faster NICs ({})",
                      Quoted(place.name), FormatBandwidth(place.speed), FormatBandwidth(fastest)));
    }
    if (fastest > Bandwidth()) {
      fabric_ = OneSwitch(fastest);
      Note(kFabricNote);
    } else {
      Note("the input has no NIC, so the topology has a single node");
    }
  }

  // Leaves out NICs that --nics does not name.
  void LeaveOutOtherNics() {
    std::set<std::string> unknown(options_.nics.begin(), options_.nics.end());
    std::string left_out;
    for (const int nic : Of(DeviceKind::kNic)) {
      Place& place = At(nic);
      if (std::find(options_.nics.begin(), options_.nics.end(), place.name) !=
          options_.nics.end()) {
        unknown.erase(place.name);
        continue;
      }
      place.gone = true;
      left_out += fmt::format("{}{}", left_out.empty() ? "" : ", ", place.name);
    }
    for (const std::string& name : unknown) {
      Report("topology.unknown-nic", {"--nics " + name, 0, 0},
             fmt::format("the file has no NIC with this name: {}", Quoted(name)),
             "give --nics the names of <net> elements, or write --nics all");
    }
    if (!left_out.empty()) {
      Note(fmt::format("NICs that --nics does not list are ignored: {}", left_out));
    }
  }

  void Number() {
    for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kNic}) {
      std::vector<int> places = Of(kind);
      std::stable_sort(places.begin(), places.end(),
                       [&](int a, int b) { return At(a).order < At(b).order; });
      for (std::size_t i = 0; i < places.size(); ++i) At(places[i]).index = static_cast<int>(i);
      SetCount(kind, places.size());
    }
    // Switches in the order of their first GPU, otherwise of their first NIC.
    std::vector<int> switches = Of(DeviceKind::kPcieSwitch);
    std::vector<std::pair<int, int>> first(places_.size(), {topology::kMostDevices, 0});
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Place& place = places_[i];
      if (place.gone || place.kind == DeviceKind::kPcieSwitch) continue;
      const bool is_nic = place.kind == DeviceKind::kNic;
      const std::pair<int, int> key{is_nic ? topology::kMostDevices - 1 : place.index,
                                    is_nic ? place.index : 0};
      for (int above = place.parent; above >= 0; above = At(above).parent) {
        first[static_cast<std::size_t>(above)] =
            std::min(first[static_cast<std::size_t>(above)], key);
      }
    }
    std::stable_sort(switches.begin(), switches.end(), [&](int a, int b) {
      return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)];
    });
    for (std::size_t i = 0; i < switches.size(); ++i) At(switches[i]).index = static_cast<int>(i);
    SetCount(DeviceKind::kPcieSwitch, switches.size());

    std::vector<Cpu*> cpus;
    for (Cpu& cpu : cpus_) cpus.push_back(&cpu);
    std::stable_sort(cpus.begin(), cpus.end(), [](const Cpu* a, const Cpu* b) {
      return std::tie(a->host, a->numa) < std::tie(b->host, b->numa);
    });
    for (std::size_t i = 0; i < cpus.size(); ++i) cpus[i]->index = static_cast<int>(i);
    SetCount(DeviceKind::kCpu, cpus.size());
    for (int i = 0; i < topology::kNodeDeviceKinds; ++i) {
      const auto kind = static_cast<DeviceKind>(i);
      if (node_type_.Count(kind) <= topology::kMostNodeDevices) continue;
      Report(
          "topology.impossible", LocationOf(root_),
          fmt::format("a node can have at most {} devices of the same kind, but the node has {} {}",
                      topology::kMostNodeDevices, node_type_.Count(kind), Name(kind)),
          "");
    }
  }

  // The GPU type from the user or from its PCI ids.
  const GpuModel* ChooseGpu() {
    const std::vector<int> gpus = Of(DeviceKind::kGpu);
    if (!options_.gpu.empty()) {
      node_type_.gpu = options_.gpu;
      return FindGpuModel(options_.gpu);
    }
    const GpuModel* model = nullptr;
    for (const int gpu : gpus) {
      const Xml& pci = At(gpu).element;
      const GpuModel* here = FindGpuModel(Lower(pci.attribute("vendor").value()),
                                          Lower(pci.attribute("device").value()));
      if (here == nullptr || (model != nullptr && model != here)) {
        Report("topology.unknown-gpu", At(gpu).location,
               here == nullptr ? fmt::format("the type of the GPU is unknown: vendor {}, device {}",
                                             Quoted(pci.attribute("vendor").value()),
                                             Quoted(pci.attribute("device").value()))
                               : fmt::format("the node has GPUs of two types: {} and {}",
                                             model->name, here->name),
               "specify the GPU type with --gpu (topologies/gpus/NAME.yaml)");
        return nullptr;
      }
      model = here;
    }
    node_type_.gpu = std::string(model->name);
    return model;
  }

  void LinkPcie() {
    for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kNic, DeviceKind::kPcieSwitch}) {
      std::vector<int> places = Of(kind);
      std::sort(places.begin(), places.end(),
                [&](int a, int b) { return At(a).index < At(b).index; });
      for (const int i : places) {
        const Place& place = At(i);
        if (place.parent >= 0) {
          Add(LinkKind::kPcie, kind, place.index, DeviceKind::kPcieSwitch, At(place.parent).index,
              1, kPcieLatency, place.up);
        } else if (place.cpu >= 0) {
          Add(LinkKind::kPcie, kind, place.index, DeviceKind::kCpu,
              cpus_[static_cast<std::size_t>(place.cpu)].index, 1, kPcieLatency, place.up);
        }
      }
    }
    if (unknown_pcie_) {
      Note(
          "the input does not specify the speed or width of some PCIe connections. Assumed (the "
          "values of NCCL): 8 GT/s and 16 lanes");
    }
  }

  // The bandwidth of one link of the GPU.
  std::optional<Bandwidth> LinkRate(const Place& gpu, const GpuModel* model) {
    if (model != nullptr && model->nvlinks > 0) return model->nvlink;
    const Xml element = gpu.element.child("gpu");
    if (element.child("xgmi")) return std::nullopt;
    return NvLinkBandwidth(element.attribute("sm").as_int());
  }

  // The NVLinks listed in the input, except those to CPUs.
  struct ListedNvLinks {
    // Between two GPUs, from the first one's list.
    struct Direct {
      int count = 0;
      Location location;
      Bandwidth rate;  // of the last link listed
    };
    struct ToSwitch {
      int gpu = 0;
      std::string target;
      int count = 0;
      Bandwidth rate;
    };
    std::map<std::pair<int, int>, Direct> direct;
    std::vector<ToSwitch> to_switches;
  };

  void LinkNvLinks(const GpuModel* model) {
    std::vector<int> gpus = Of(DeviceKind::kGpu);
    std::sort(gpus.begin(), gpus.end(), [&](int a, int b) { return At(a).index < At(b).index; });
    ListedNvLinks listed;
    for (const int gpu : gpus) {
      if (!ReadNvLinksOf(At(gpu), model, listed)) return;
    }
    const bool none = listed.direct.empty() && listed.to_switches.empty();
    if (none && gpus.size() > 1 && mistakes_.empty()) {
      AssumeNvLinks(model, static_cast<int>(gpus.size()));
    } else {
      AddNvLinks(listed);
    }
  }

  // Returns false if the bandwidth of the GPU's links is unknown.
  bool ReadNvLinksOf(const Place& gpu, const GpuModel* model, ListedNvLinks& listed) {
    for (const Xml& link : gpu.element.child("gpu").children()) {
      const std::string_view name = link.name();
      if (name == "c2c") {
        LinkToCpu(gpu, link);
        continue;
      }
      if (name != "nvlink" && name != "xgmi") {
        NoteElement(link);
        continue;
      }
      CheckNames(link);
      const std::string target = Lower(link.attribute("target").value());
      const std::optional<int> count = CountOfNvLinks(link, target);
      if (!count) continue;
      const std::optional<Bandwidth> rate = LinkRate(gpu, model);
      if (!rate) {
        Report("topology.unknown-gpu", LocationOf(link),
               fmt::format("the speed of the GPU's links is unknown: sm {}",
                           Quoted(gpu.element.child("gpu").attribute("sm").value())),
               "specify the GPU type with --gpu (topologies/gpus/NAME.yaml)");
        return false;
      }
      ReadNvLink(gpu, link, {gpu.index, target, *count, *rate}, listed);
    }
    return true;
  }

  std::optional<int> CountOfNvLinks(const Xml& link, const std::string& target) {
    const auto count = Integer(link, "count");
    const bool possible = count && *count >= 1 && *count <= topology::kMostParallelLinks;
    if (possible && !target.empty()) return static_cast<int>(*count);
    if (count || !link.attribute("count") || target.empty()) {
      const std::string_view name = link.name();
      Report("topology.impossible", LocationOf(link),
             target.empty() ? fmt::format("the element <{}> has no attribute 'target'", name)
                            : fmt::format("the attribute 'count' of <{}> must be from 1 to {}: {}",
                                          name, topology::kMostParallelLinks,
                                          Quoted(link.attribute("count").value())),
             "remove the element if the machine has no such link");
    }
    return std::nullopt;
  }

  // `links`: the link as if it led to a switch.
  void ReadNvLink(const Place& gpu, const Xml& link, const ListedNvLinks::ToSwitch& links,
                  ListedNvLinks& listed) {
    const std::string kind = Lower(link.attribute("tclass").value());
    const auto other = by_bus_.find({gpu.host, links.target});
    if (other != by_bus_.end() && places_[other->second].kind == DeviceKind::kGpu) {
      ReadDirectNvLink(places_[other->second].index, link, links, listed);
    } else if (kind.starts_with("0x03")) {
      Note(fmt::format(
          "line {}: the links to {} are ignored, because the input has no GPU at this address",
          LocationOf(link).line, links.target));
    } else if (kind == "0x068001") {  // an IBM bridge: the CPU
      if (gpu.cpu < 0) return;
      Add(LinkKind::kNvLink, DeviceKind::kGpu, gpu.index, DeviceKind::kCpu,
          cpus_[static_cast<std::size_t>(gpu.cpu)].index, links.count, kNvLinkLatency, links.rate);
    } else {
      listed.to_switches.push_back(links);
    }
  }

  void ReadDirectNvLink(int peer, const Xml& link, const ListedNvLinks::ToSwitch& links,
                        ListedNvLinks& listed) {
    if (peer == links.gpu) {
      Report("topology.impossible", LocationOf(link), "a GPU cannot be linked to itself", "");
      return;
    }
    auto [at, is_new] =
        listed.direct.try_emplace(std::minmax(links.gpu, peer),
                                  ListedNvLinks::Direct{links.count, LocationOf(link), links.rate});
    ListedNvLinks::Direct& direct = at->second;
    direct.rate = links.rate;
    if (is_new || direct.count == links.count) return;
    Report("topology.impossible", LocationOf(link),
           fmt::format("this GPU has {} links to another GPU, but that GPU has {} links back "
                       "(line {})",
                       links.count, direct.count, direct.location.line),
           "write the same 'count' in the elements of both GPUs");
  }

  void AddNvLinks(const ListedNvLinks& listed) {
    std::map<std::string, int> nvswitches;  // by target, which determines their numbers
    for (const ListedNvLinks::ToSwitch& link : listed.to_switches) {
      nvswitches.emplace(link.target, 0);
    }
    int next = 0;
    for (auto& [target, index] : nvswitches) index = next++;
    SetCount(DeviceKind::kNvSwitch, nvswitches.size());
    for (const auto& [pair, direct] : listed.direct) {
      Add(LinkKind::kNvLink, DeviceKind::kGpu, pair.first, DeviceKind::kGpu, pair.second,
          direct.count, kNvLinkLatency, direct.rate);
    }
    std::map<std::pair<int, int>, std::pair<int, Bandwidth>> summed;
    for (const ListedNvLinks::ToSwitch& link : listed.to_switches) {
      auto& [count, rate] = summed[{link.gpu, nvswitches[link.target]}];
      count += link.count;
      rate = link.rate;
    }
    for (const auto& [pair, link] : summed) {
      Add(LinkKind::kNvLink, DeviceKind::kGpu, pair.first, DeviceKind::kNvSwitch, pair.second,
          link.first, kNvLinkLatency, link.second);
    }
  }

  // For an input without NVLinks.
  void AssumeNvLinks(const GpuModel* model, int gpus) {
    if (model == nullptr || model->nvlinks == 0) return;
    if (options_.missing_nvlinks == MissingNvLinks::kRefuse) {
      Report("topology.no-nvlinks", LocationOf(root_),
             fmt::format("the input has no NVLinks, but a GPU of type {} has {} links", model->name,
                         model->nvlinks),
             "write the file again with NCCL_TOPO_DUMP_FILE; or add --nvlink assume if each GPU "
             "has all links of its type, or --nvlink none if no GPU has links");
      return;
    }
    if (options_.missing_nvlinks == MissingNvLinks::kNone) {
      Note(
          fmt::format("the topology has no NVLinks, as in the input, although a GPU of type {} "
                      "has {} links",
                      model->name, model->nvlinks));
      return;
    }
    constexpr int kMostDirect = 4;
    const bool direct = gpus <= kMostDirect && model->nvlinks % (gpus - 1) == 0;
    for (int i = 0; i < gpus; ++i) {
      if (!direct) {
        Add(LinkKind::kNvLink, DeviceKind::kGpu, i, DeviceKind::kNvSwitch, 0, model->nvlinks,
            kNvLinkLatency, model->nvlink);
      }
      for (int j = i + 1; direct && j < gpus; ++j) {
        Add(LinkKind::kNvLink, DeviceKind::kGpu, i, DeviceKind::kGpu, j,
            model->nvlinks / (gpus - 1), kNvLinkLatency, model->nvlink);
      }
    }
    SetCount(DeviceKind::kNvSwitch, direct ? 0 : 1);
    Note(fmt::format(
        "the input has no NVLinks. Assumed: the {} links of a GPU of type {}, {}", model->nvlinks,
        model->name,
        direct ? "divided equally among the other GPUs" : "all connected to one switch"));
  }

  // NVLink-C2C of Grace: `bw` in MB/s for each of `count` links.
  void LinkToCpu(const Place& gpu, const Xml& link) {
    CheckNames(link);
    const std::int64_t bandwidth = Integer(link, "bw").value_or(0);
    const std::int64_t count = Integer(link, "count").value_or(1);
    constexpr std::int64_t kBytes = 1'000'000;
    if (bandwidth < 1 || bandwidth > 10'000'000 || count < 1 ||
        count > topology::kMostParallelLinks) {
      Report("topology.impossible", LocationOf(link),
             fmt::format(
                 "the attributes 'bw' and 'count' of <c2c> must be larger than zero: {} and {}",
                 bandwidth, count),
             "remove the element if the machine has no such link");
      return;
    }
    if (gpu.cpu < 0) return;
    constexpr Time kC2cLatency = Nanoseconds(400);
    Add(LinkKind::kNvLink, DeviceKind::kGpu, gpu.index, DeviceKind::kCpu,
        cpus_[static_cast<std::size_t>(gpu.cpu)].index, static_cast<int>(count), kC2cLatency,
        Bandwidth::BytesPerSecond(bandwidth * kBytes));
  }

  void LinkCpus() {
    for (const Cpu& a : cpus_) {
      for (const Cpu& b : cpus_) {
        if (a.index >= b.index || a.host != b.host) continue;
        if (!a.processor) Note(BetweenUnknownCpusNote());
        Add(LinkKind::kCpuInterconnect, DeviceKind::kCpu, a.index, DeviceKind::kCpu, b.index, 1,
            kCpuLatency, std::min(BetweenCpus(a.processor), BetweenCpus(b.processor)));
      }
    }
  }

  // A number for each device.
  static std::size_t IdOf(DeviceKind kind, int device) {
    return static_cast<std::size_t>(device) * topology::kNodeDeviceKinds +
           static_cast<std::size_t>(kind);
  }

  // Checks the sets of devices that links connect.
  void CheckConnections() {
    std::size_t ids = IdOf(DeviceKind::kGpu, node_type_.Count(DeviceKind::kGpu)) +
                      IdOf(DeviceKind::kNic, node_type_.Count(DeviceKind::kNic));
    for (const LinkedPair& link : links_) {
      ids = std::max({ids, IdOf(link.from_kind, link.from) + 1, IdOf(link.to_kind, link.to) + 1});
    }
    DisjointSets all(ids);
    DisjointSets switches(ids);  // without GPUs and NICs, which do not forward
    for (const LinkedPair& link : links_) {
      const std::size_t from = IdOf(link.from_kind, link.from), to = IdOf(link.to_kind, link.to);
      all.Join(from, to);
      if (Forwards(link.from_kind) && Forwards(link.to_kind)) switches.Join(from, to);
    }
    const auto places = [&](DeviceKind kind) {
      std::vector<int> sorted = Of(kind);
      std::sort(sorted.begin(), sorted.end(),
                [&](int a, int b) { return At(a).index < At(b).index; });
      return sorted;
    };
    const std::vector<int> gpus = places(DeviceKind::kGpu);
    const std::vector<int> nics = places(DeviceKind::kNic);
    const std::size_t home = all.Find(IdOf(DeviceKind::kGpu, 0));
    for (const DeviceKind kind : {DeviceKind::kGpu, DeviceKind::kNic}) {
      for (const int i : kind == DeviceKind::kGpu ? gpus : nics) {
        if (all.Find(IdOf(kind, At(i).index)) == home) continue;
        const bool is_gpu = kind == DeviceKind::kGpu;
        Report("topology.impossible", At(i).location,
               fmt::format("there is no path from the GPU at {} (line {}) to the {} {}",
                           At(gpus[0]).bus, At(gpus[0]).location.line, is_gpu ? "GPU" : "NIC",
                           Quoted(is_gpu ? At(i).bus : At(i).name)),
               "move the <pci> of the device into the <cpu> that the device is attached to; "
               "for several hosts, list the links to NVSwitches");
        return;
      }
    }
    // The sets adjacent to each GPU and NIC.
    std::map<std::size_t, std::set<std::size_t>> next_to;
    for (const LinkedPair& link : links_) {
      const std::size_t from = IdOf(link.from_kind, link.from), to = IdOf(link.to_kind, link.to);
      if (!Forwards(link.from_kind) && Forwards(link.to_kind)) {
        next_to[from].insert(switches.Find(to));
      }
      if (!Forwards(link.to_kind) && Forwards(link.from_kind)) {
        next_to[to].insert(switches.Find(from));
      }
    }
    std::set<std::size_t> to_nics;
    for (const int nic : nics) {
      to_nics.merge(std::set<std::size_t>(next_to[IdOf(DeviceKind::kNic, At(nic).index)]));
    }
    for (const int gpu : gpus) {
      const std::set<std::size_t>& sets = next_to[IdOf(DeviceKind::kGpu, At(gpu).index)];
      if (nics.empty() || std::any_of(sets.begin(), sets.end(),
                                      [&](std::size_t set) { return to_nics.contains(set); })) {
        continue;
      }
      Report("topology.impossible", At(gpu).location,
             fmt::format("all routes from the GPU {} to a NIC pass through another GPU",
                         Quoted(At(gpu).bus)),
             "move the <pci> of the GPU into the <cpu> that the GPU is attached to");
    }
  }

  std::string_view text_;
  TextLines lines_;
  pugi::xml_document document_;
  Xml root_;
  std::vector<Cpu> cpus_;
  std::vector<Place> places_;
  std::map<std::pair<std::string, std::string>, std::size_t> by_bus_;  // (host, bus id)
  bool unknown_pcie_ = false;
  bool too_deep_ = false;
};

}  // namespace

Result<ImportedTopology> ParseNcclTopology(std::string_view text, const std::string& file,
                                           const ImportOptions& options) {
  return Reader(text, file, options).Run();
}

}  // namespace stepcast::formats

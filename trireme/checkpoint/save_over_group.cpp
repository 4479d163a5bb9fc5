#include "trireme/checkpoint/save.h"
#include "trireme/comm/objects.h"

// The only part of saving that knows a Group, and with it torch.
namespace trireme::checkpoint {
namespace {

GatherStrings gather_over(const comm::Group& group) {
  return [&group](const std::string& text) { return comm::all_gather_strings(group, text); };
}

}  // namespace

void save(const SaveRequest& request, const comm::Group& group) {
  save(request, group.rank(), gather_over(group));
}

void save_to(const std::string& folder, const SaveRequest& request, const comm::Group& group) {
  save_to(folder, request, group.rank(), gather_over(group));
}

}  // namespace trireme::checkpoint

//! What the host says of a schedule, by the contract's interface `schedule`.

const std = @import("std");
const contract = @import("contract.zig");
const bindings = contract.bindings;
const fields = @import("fields.zig");
const time = @import("time.zig");

pub fn scheduled(spec: fields.Schedule, failure: *contract.Failure) error{Failed}!fields.Scheduled {
    const at = try parse(spec.at, "spec.schedule.at", failure);
    var cron = contract.string(spec.cron);
    var zone = contract.string(spec.timeZone);
    var problem: bindings.windlass_plugin_schedule_problem_t = undefined;
    var next: u64 = undefined;
    if (!bindings.windlass_plugin_schedule_next(&cron, &zone, at, &next, &problem)) return invalid(problem, failure);
    var previous: bindings.windlass_plugin_schedule_option_time_t = undefined;
    if (!bindings.windlass_plugin_schedule_previous(&cron, &zone, at, &previous, &problem)) return invalid(problem, failure);
    var found = fields.Scheduled{ .next = text(next) };
    if (previous.is_some) {
        found.previous = text(previous.val);
        if (spec.last) |last| {
            if (previous.val > try parse(last, "spec.schedule.last", failure)) found.due = text(previous.val);
        }
    }
    return found;
}

fn invalid(problem: bindings.windlass_plugin_schedule_problem_t, failure: *contract.Failure) error{Failed} {
    const is_of_zone = problem.tag == bindings.WINDLASS_PLUGIN_SCHEDULE_PROBLEM_TIME_ZONE;
    const field = if (is_of_zone) "spec.schedule.timeZone" else "spec.schedule.cron";
    // Both cases have a text.
    failure.* = contract.invalid(field, contract.slice(if (is_of_zone) problem.val.time_zone else problem.val.schedule));
    return error.Failed;
}

fn parse(of: []const u8, field: []const u8, failure: *contract.Failure) error{Failed}!u64 {
    return time.parse(of) orelse {
        failure.* = contract.invalid(field, "is not a time since 1970");
        return error.Failed;
    };
}

fn text(milliseconds: u64) []const u8 {
    return time.format(milliseconds / std.time.ms_per_s);
}

//! The fields that the probe reads and writes, by their names in crd.json and config.json, which say what each is for.

const json = @import("json.zig");
const Text = []const u8;

pub const Spec = struct {
    children: u32 = 0,
    text: ?Text = null,
    number: ?i64 = null,
    decimal: ?f64 = null,
    map: ?json.Texts = null,
    copy: ?json.Value = null,
    fail: ?Text = null,
    require: ?Text = null,
    select: ?Text = null,
    everywhere: bool = false,
    events: []const Event = &.{},
    conditions: []const Condition = &.{},
    requeueSeconds: ?u32 = null,
    requeueAt: ?Text = null,
    report: bool = false,
    time: bool = false,
    random: bool = false,
    retain: bool = false,
    options: []const Options = &.{},
    keep: []const Text = &.{},
    keepAll: bool = false,
    waiting: ?Text = null,
    see: bool = false,
    schedule: ?Schedule = null,
};

pub const Schedule = struct { cron: Text, timeZone: Text = "", at: Text, last: ?Text = null };

pub const Options = struct {
    stage: u32 = 0,
    takeOver: bool = false,
    ready: ?bool = null,
    retain: bool = false,
    once: ?Text = null,
    update: ?enum { apply, recreate, onDelete } = null,
    replaces: ?Text = null,
};

pub const Event = struct { reason: Text, message: Text, warning: bool = false };

pub const Condition = struct { type: Text, holds: bool, reason: Text, message: Text };

pub const Status = struct {
    live: usize,
    ready: usize = 0,
    text: ?Text = null,
    number: ?i64 = null,
    decimal: ?f64 = null,
    map: ?json.Texts = null,
    copy: ?json.Value = null,
    before: ?Text = null,
    label: ?Text = null,
    annotation: ?Text = null,
    leaving: ?[]const Text = null,
    related: ?[]const json.Value = null,
    config: ?Config = null,
    time: ?Text = null,
    finalizing: ?bool = null,
    cause: ?Text = null,
    terminating: ?bool = null,
    seen: ?Seen = null,
    scheduled: ?Scheduled = null,
    conditions: ?[]const StatusCondition = null,
};

/// What is read of the last status. The host writes a status, too, but none with `live` and `ready`.
pub const LastStatus = struct { live: usize, ready: usize, text: ?Text = null };

pub const StatusCondition = struct { type: Text, status: Text, reason: Text, message: Text };

pub const Seen = struct { readiness: []const Text, kinds: []const Text, closed: []const Text, now: Text };

pub const Scheduled = struct { next: Text, previous: ?Text = null, due: ?Text = null };

pub const Config = struct { greeting: Text = "none", number: ?i64 = null };

import PushCore

/// Shares the places in hand and the turns of a fan-out among apps: many jobs of one app count as one app.
struct JobShares: Sendable {
    private let places: Int
    /// The app that the next claim begins after.
    private var lastUrgent = AppID.none
    private var lastCampaign = AppID.none
    /// When each app that has campaigns in hand was last served, in turns.
    private var servedAt: [AppID: Int] = [:]
    private var turn = 0

    init(places: Int) {
        self.places = places
    }

    /// What may be claimed beside the jobs in hand, whose apps are given. A quarter of the places is kept for others.
    func room(beside apps: [AppID], of lane: Lane) -> JobRoom {
        var counts: [AppID: Int] = [:]
        for app in apps { counts[app, default: 0] += 1 }
        let share = max(1, (places * 3 + 3) / 4)
        return JobRoom(
            limit: max(0, places - apps.count),
            after: lane == .campaign ? lastCampaign : lastUrgent,
            fullApps: counts.filter { $0.value >= share }.keys.sorted()
        )
    }

    /// Moves on to the app after those of which jobs were claimed.
    mutating func claimed(_ jobs: [ClaimedJob]) {
        let campaigns = jobs.filter { $0.lane == .campaign }
        lastCampaign = Self.last(of: campaigns.map(\.appID), after: lastCampaign)
        lastUrgent = Self.last(of: jobs.filter { $0.lane != .campaign }.map(\.appID), after: lastUrgent)
    }

    /// The position of the job whose app has waited longest for a turn; `apps` are those of the jobs in hand, not empty.
    mutating func next(among apps: [AppID]) -> Int {
        let inHand = Set(apps)
        servedAt = servedAt.filter { inHand.contains($0.key) }
        // `min` gives the first of equals: in an app its jobs take turns by their places.
        let next = apps.indices.min { servedAt[apps[$0], default: 0] < servedAt[apps[$1], default: 0] } ?? 0
        turn += 1
        servedAt[apps[next]] = turn
        return next
    }

    /// The last of some apps in the order of ids from one on and round again; that one where there is none.
    private static func last(of apps: [AppID], after app: AppID) -> AppID {
        apps.filter { $0 <= app }.max() ?? apps.max() ?? app
    }
}

// swift-tools-version: 6.2
import PackageDescription

// One list of settings for every Swift target: the compiler is the first reviewer.
let strict: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),  // SE-0335
    .enableUpcomingFeature("InternalImportsByDefault"),  // SE-0409
    .enableUpcomingFeature("MemberImportVisibility"),  // SE-0444
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),  // SE-0461
    .enableUpcomingFeature("InferIsolatedConformances"),  // SE-0470
    .strictMemorySafety(),  // SE-0458
    .treatAllWarnings(as: .error),  // SE-0480
]

// A system library: a module map and one header beside it.
func systemLibrary(_ name: String, pkgConfig: String? = nil, package: String? = nil) -> Target {
    .systemLibrary(name: name, pkgConfig: pkgConfig, providers: package.map { [.apt([$0])] })
}

func target(_ name: String, _ dependencies: [Target.Dependency] = [], path: String? = nil) -> Target {
    .target(name: name, dependencies: dependencies, path: path, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies + ["TestSupport"], swiftSettings: strict)
}

let package = Package(
    name: "peal",
    platforms: [.macOS("26.0")],
    products: [.executable(name: "peal", targets: ["peal"])],
    targets: [
        // C, each imported by one target. Two exceptions: the simulator, a double of the providers, shares nothing with
        // the client that it tests; and the kernel's headers (CLinux) serve Threads and HTTP2.
        systemLibrary("CLinux"),
        systemLibrary("COpenSSL", pkgConfig: "openssl", package: "libssl-dev"),
        systemLibrary("CNghttp2", pkgConfig: "libnghttp2", package: "libnghttp2-dev"),
        systemLibrary("CPostgres", pkgConfig: "libpq", package: "libpq-dev"),
        .target(name: "CShims", dependencies: ["COpenSSL"]),
        .target(name: "CAllocationCounter"),

        // Words and tools that every stage shares.
        target("PushCore"),
        target("Telemetry", ["PushCore"]),
        .target(
            name: "SQLText",
            dependencies: ["PushCore"],
            path: "sql",
            exclude: ["migrations", "queries"],
            swiftSettings: strict,
            plugins: ["EmbedSQL"]
        ),
        .plugin(name: "EmbedSQL", capability: .buildTool(), dependencies: ["SQLEmbedder"]),
        .executableTarget(name: "SQLEmbedder", swiftSettings: strict),
        target("Threads", ["CLinux"]),
        target("Postgres", ["PushCore", "Telemetry", "Threads", "CPostgres"]),
        target("OpenSSL", ["PushCore", "COpenSSL", "CShims"]),
        target("HTTP2", ["PushCore", "Telemetry", "Threads", "OpenSSL", "CLinux", "CNghttp2"]),

        // The three stages. They never import each other: PealRuntime joins them.
        target("Scheduler", ["PushCore", "Telemetry", "Postgres", "SQLText"]),
        target("Fanout", ["PushCore", "Telemetry", "Postgres", "SQLText"]),
        target("Delivery", ["PushCore", "Telemetry", "HTTP2", "OpenSSL", "Postgres", "SQLText"]),

        // Composition and the command.
        target(
            "PealRuntime",
            [
                "PushCore", "Telemetry", "SQLText", "Postgres", "OpenSSL", "HTTP2",
                "Scheduler", "Fanout", "Delivery",
            ]
        ),
        .executableTarget(
            name: "peal",
            dependencies: ["PealRuntime", "ProviderSimulator", "PushCore"],
            swiftSettings: strict
        ),

        // The provider double, and the measurements.
        target("ProviderSimulator", ["PushCore", "COpenSSL", "CShims", "CLinux", "CNghttp2"]),
        .executableTarget(
            name: "PealBenchmarks",
            dependencies: [
                "PealRuntime", "PushCore", "Telemetry", "Postgres", "OpenSSL", "HTTP2", "Delivery",
                "CAllocationCounter",
            ],
            swiftSettings: strict
        ),

        target(
            "TestSupport",
            ["PushCore", "Telemetry", "OpenSSL", "Postgres", "SQLText", "PealRuntime", "ProviderSimulator"],
            path: "Tests/TestSupport"
        ),
        tests("PushCoreTests", ["PushCore"]),
        tests("TelemetryTests", ["PushCore", "Telemetry"]),
        tests("PostgresTests", ["PushCore", "Telemetry", "Postgres", "SQLText"]),
        tests("SQLTests", ["PushCore", "Postgres", "SQLText", "Delivery"]),
        tests("OpenSSLTests", ["PushCore", "OpenSSL"]),
        tests("HTTP2Tests", ["PushCore", "Threads", "HTTP2", "OpenSSL", "ProviderSimulator"]),
        tests("SchedulerTests", ["PushCore", "Postgres", "Scheduler"]),
        tests("FanoutTests", ["PushCore", "Postgres", "Fanout"]),
        tests(
            "DeliveryTests",
            ["PushCore", "Postgres", "HTTP2", "OpenSSL", "SQLText", "Delivery", "ProviderSimulator"]
        ),
        tests("ProviderSimulatorTests", ["PushCore", "OpenSSL", "CNghttp2", "ProviderSimulator"]),
        tests(
            "PealRuntimeTests",
            ["PushCore", "Telemetry", "SQLText", "OpenSSL", "Postgres", "PealRuntime", "ProviderSimulator"]
        ),
        tests(
            "IntegrationTests",
            ["PushCore", "Telemetry", "Postgres", "Delivery", "PealRuntime", "ProviderSimulator"]
        ),
    ]
)

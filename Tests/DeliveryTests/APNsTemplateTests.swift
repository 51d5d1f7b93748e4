import Delivery
import PushCore
import Testing

@Suite struct APNsTemplateTests {
    private func make(
        _ json: String,
        expiration: MessageSettings.Expiration = .at(epochSeconds: 1_772_449_200),
        collapseID: String? = nil
    ) throws -> NotificationTemplate {
        let templates = NotificationTemplates(
            try Content.parse(JSONValue.parse(json)),
            provider: .apns(bundleID: "com.example.talk"),
            settings: MessageSettings(expiration: expiration, collapseID: collapseID)
        )
        return try #require(templates.all.first)
    }

    private func body(_ template: NotificationTemplate) -> String {
        String(decoding: template.renderBody(token: [], secondsLeft: 0), as: UTF8.self)
    }

    private func header(_ name: String, of template: NotificationTemplate) -> String? {
        template.headers.first { $0.name == name }?.value
    }

    @Test func `a full content becomes the payload that Apple documents`() throws {
        let template = try make(
            #"""
            {"title":"Ann","subtitle":"now","body":"Lunch?","badge":3,"sound":"default","thread_id":"c42",
             "category":"MSG","interruption_level":"time-sensitive","relevance":0.5,"data":{"m":"1881"},
             "url":"https://example.com/c/42","image":"https://example.com/ann.png",
             "actions":[{"id":"reply","title":"Reply"},{"id":"open","title":"Open","url":"app://c/42"}]}
            """#,
            collapseID: "c42"
        )
        #expect(
            body(template)
                == #"{"aps":{"alert":{"title":"Ann","subtitle":"now","body":"Lunch?"},"badge":3,"sound":"default","#
                + #""thread-id":"c42","category":"MSG","mutable-content":1,"interruption-level":"time-sensitive","#
                + #""relevance-score":0.5},"m":"1881","url":"https://example.com/c/42","#
                + #""image":"https://example.com/ann.png","#
                + #""actions":[{"id":"reply","title":"Reply"},{"id":"open","url":"app://c/42","title":"Open"}]}"#
        )
        #expect(
            template.headers == [
                HeaderField("apns-topic", "com.example.talk"),
                HeaderField("apns-push-type", "alert"),
                HeaderField("apns-priority", "10"),
                HeaderField("apns-expiration", "1772449200"),
                HeaderField("apns-collapse-id", "c42"),
            ]
        )
        #expect(template.fault == nil)
        #expect(template.payloadBytes == body(template).utf8.count)
    }

    @Test func `case 9: types of data survive to the byte`() throws {
        let template = try make(
            #"{"data":{"flag":true,"off":false,"one":1,"zero":0,"f":1.0,"big":123456789012345678901}}"#
        )
        #expect(
            body(template)
                == #"{"aps":{"content-available":1},"flag":true,"off":false,"one":1,"zero":0,"f":1.0,"#
                + #""big":123456789012345678901}"#
        )
    }

    @Test func `case 14: a badge alone is an alert of priority 10`() throws {
        let template = try make(#"{"badge":0}"#)
        #expect(body(template) == #"{"aps":{"badge":0}}"#)
        #expect(header("apns-push-type", of: template) == "alert")
        #expect(header("apns-priority", of: template) == "10")
    }

    @Test func `case 15: available alone is a background push of priority 5, with an alert it is an alert`() throws {
        let background = try make(#"{"available":true,"priority":"high"}"#)
        #expect(body(background) == #"{"aps":{"content-available":1}}"#)
        #expect(header("apns-push-type", of: background) == "background")
        #expect(header("apns-priority", of: background) == "5")
        let alert = try make(#"{"available":true,"body":"x"}"#)
        #expect(body(alert) == #"{"aps":{"alert":{"body":"x"},"content-available":1}}"#)
        #expect(header("apns-push-type", of: alert) == "alert")
        #expect(header("apns-priority", of: alert) == "10")
    }

    @Test func `case 17: a ttl of 0 is an expiration of 0`() throws {
        #expect(header("apns-expiration", of: try make(#"{"title":"x"}"#, expiration: .immediate)) == "0")
    }

    @Test func `case 18: the expiration is absolute, in seconds`() throws {
        let sentAt = WallClock.Instant(microsecondsSinceEpoch: 1_772_445_600_000_000)  // 2026-03-02T10:00:00Z
        let expiresAt = sentAt + .seconds(3_600)
        let template = try make(
            #"{"title":"x"}"#,
            expiration: .at(epochSeconds: expiresAt.microsecondsSinceEpoch / 1_000_000)
        )
        #expect(header("apns-expiration", of: template) == "1772449200")
    }

    @Test func `case 23: the collapse id is a header, and absent where the job has none`() throws {
        #expect(header("apns-collapse-id", of: try make(#"{"title":"x"}"#, collapseID: "order-7")) == "order-7")
        #expect(header("apns-collapse-id", of: try make(#"{"title":"x"}"#)) == nil)
    }

    @Test func `case 1: a payload of 4096 bytes is sent, one of 4097 is a fault`() throws {
        let frame = #"{"aps":{"alert":{"body":""}}}"#.utf8.count
        let fits = try make(#"{"body":"\#(String(repeating: "A", count: 4_096 - frame))"}"#)
        #expect(fits.payloadBytes == 4_096)
        #expect(fits.fault == nil)
        let tooLarge = try make(#"{"body":"\#(String(repeating: "A", count: 4_097 - frame))"}"#)
        #expect(tooLarge.fault == .tooLarge(payloadBytes: 4_097, limit: 4_096))
        #expect(tooLarge.fault?.reason == "payload_too_large")
    }

    @Test func `case 2: the limit counts bytes, not characters`() throws {
        let template = try make(#"{"body":"\#(String(repeating: "🎉", count: 1_200))"}"#)
        #expect(template.fault == .tooLarge(payloadBytes: 4_829, limit: 4_096))
    }

    @Test func `case 4: text goes out as raw UTF-8`() throws {
        let text = String(repeating: "م", count: 1_300)
        let template = try make(#"{"body":"\#(text)"}"#)
        #expect(template.fault == nil)
        #expect(body(template) == #"{"aps":{"alert":{"body":"\#(text)"}}}"#)
    }

    @Test func `case 6: the whole payload is measured, not the body alone`() throws {
        let template = try make(#"{"title":"\#(String(repeating: "T", count: 4_050))","body":"okay then"}"#)
        #expect(template.fault == .tooLarge(payloadBytes: 4_099, limit: 4_096))
    }

    @Test func `only what JSON demands is escaped`() throws {
        let template = try make(#"{"body":"\" \\ \/ \b\f\n\r\t \u0007 \u00e9 \ud83c\udf89 \u007f"}"#)
        #expect(
            body(template) == #"{"aps":{"alert":{"body":"\" \\ / \b\f\n\r\t \u0007 é 🎉 "# + "\u{7F}" + #""}}}"#
        )
    }

    @Test func `the raw part merges key by key, null removes, and decides the push type`() throws {
        let template = try make(
            #"""
            {"title":"x","sound":"s","apns":{"aps":{"sound":null,"alert":{"loc-key":"K"}},"k":1,
             "headers":{"apns-priority":"1","apns-topic":"com.example.watch"}}}
            """#
        )
        #expect(body(template) == #"{"aps":{"alert":{"title":"x","loc-key":"K"}},"k":1}"#)
        #expect(header("apns-topic", of: template) == "com.example.watch")
        #expect(header("apns-priority", of: template) == "1")
        let raw = try make(#"{"apns":{"aps":{"alert":"hi"}}}"#)
        #expect(body(raw) == #"{"aps":{"alert":"hi"}}"#)
        #expect(header("apns-push-type", of: raw) == "alert")
    }

    @Test(arguments: [
        ("liveactivity", "com.example.talk.push-type.liveactivity"),
        ("location", "com.example.talk.location-query"),
        ("widgets", "com.example.talk.push-type.widgets"),
        ("alert", "com.example.talk"),
        ("something-new", "com.example.talk"),
    ])
    func `the topic has the suffix of its push type`(pushType: String, topic: String) throws {
        let template = try make(#"{"title":"x","apns":{"headers":{"apns-push-type":"\#(pushType)"}}}"#)
        #expect(header("apns-topic", of: template) == topic)
        #expect(header("apns-push-type", of: template) == pushType)
    }

    @Test func `case 179: a bundle id that has the suffix already keeps it once`() throws {
        let content = try Content.parse(
            JSONValue.parse(#"{"title":"x","apns":{"headers":{"apns-push-type":"pushtotalk"}}}"#)
        )
        let templates = NotificationTemplates(
            content,
            provider: .apns(bundleID: "com.example.talk.voip-ptt"),
            settings: MessageSettings(expiration: .immediate)
        )
        #expect(header("apns-topic", of: try #require(templates.all.first)) == "com.example.talk.voip-ptt")
    }

    @Test func `case 184: a background push keeps the ttl of its job`() throws {
        #expect(header("apns-expiration", of: try make(#"{"available":true}"#)) == "1772449200")
    }

    @Test func `a relative badge goes to the service extension`() throws {
        let template = try make(#"{"body":"x","badge":{"increase":2}}"#)
        #expect(body(template) == #"{"aps":{"alert":{"body":"x"},"mutable-content":1},"badge_increase":2}"#)
    }

    @Test func `a critical sound is an object, a plain one is a name`() throws {
        let critical = try make(#"{"sound":{"name":"alarm.caf","critical":true,"volume":0.50}}"#)
        #expect(body(critical) == #"{"aps":{"sound":{"critical":1,"name":"alarm.caf","volume":0.50}}}"#)
        #expect(body(try make(#"{"sound":{"name":"ding"}}"#)) == #"{"aps":{"sound":"ding"}}"#)
    }

    @Test func `a content for FCM alone has nothing for APNs`() throws {
        let template = try make(#"{"fcm":{"notification":{"title":"x"}}}"#)
        #expect(template.fault == .nothingToSend)
        #expect(template.fault?.reason == "nothing_for_channel")
    }

    @Test func `case 146: every recipient of a template gets the same bytes`() throws {
        let list = (1...20).map(String.init).joined(separator: ",")
        let template = try make(#"{"title":"x","data":{"list":[\#(list)]}}"#)
        let bodies = (0..<3).map { _ in body(template) }
        #expect(Set(bodies) == [#"{"aps":{"alert":{"title":"x"}},"list":[\#(list)]}"#])
    }
}

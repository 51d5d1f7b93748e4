/// Contents that Swift and SQL must judge alike: the same verdict, the same words, the same bytes.
package struct ContentCase: Sendable, CustomStringConvertible {
    package let kind: String
    package let json: String
    /// The whole error, or nil where the content is accepted.
    package let refusal: String?

    package var description: String { String(json.prefix(120)) }

    private init(_ json: String, _ refusal: String? = nil, kind: String = "push") {
        self.kind = kind
        self.json = json
        self.refusal = refusal
    }

    /// Contents that can be sent.
    package static let accepted: [ContentCase] = [
        ContentCase(#"{"title":"Hello"}"#),
        ContentCase(#"{"title":"Hello","subtitle":"you","body":"How are you?"}"#),
        ContentCase(#"{"subtitle":"only"}"#),
        ContentCase(
            #"{"body":{"default":"Hello","de":"Hallo, liebe Leute","pt-BR":"Oi","PT":"Olá","zh-Hant-TW":"你好"}}"#
        ),
        ContentCase(#"{"title":{"default":"T","fr":"Titre"},"body":{"default":"B","de":"Ein recht langer Text"}}"#),
        ContentCase(#"{"title":null,"badge":0}"#),
        ContentCase(#"{"badge":{"set":7}}"#),
        ContentCase(#"{"badge":{"increase":2,"set":null},"body":"x"}"#),
        ContentCase(#"{"badge":{"increase":-2},"subtitle":"x"}"#),
        ContentCase(#"{"badge":2147483647,"title":"x"}"#),
        ContentCase(#"{"title":"x","badge":null,"sound":null,"data":null,"actions":null,"apns":null,"fcm":null}"#),
        ContentCase(#"{"sound":"default"}"#),
        ContentCase(#"{"sound":{"name":"alarm.caf","critical":true,"volume":0.50},"title":"Fire"}"#),
        ContentCase(#"{"sound":{"volume":1},"title":"x"}"#),
        ContentCase(#"{"sound":{},"title":"x"}"#),
        ContentCase(#"{"available":true}"#),
        ContentCase(#"{"available":true,"url":"https://example.com","image":"https://example.com/i.png"}"#),
        ContentCase(#"{"available":true,"title":"x"}"#),
        ContentCase(
            #"{"data":{"order_id":21465,"vip":true,"meta":{"a":1,"b":[1,2,{"c":null}]},"f":1.0,"t":"a \"b\" \\ c"}}"#
        ),
        ContentCase(#"{"data":{"notification":"x","collapse_key":"y","":"empty"},"title":"x"}"#),
        ContentCase(#"{"data":{"k":"v"},"url":"https://example.com/a","actions":[{"id":"a","title":"A"}]}"#),
        ContentCase(
            #"{"title":"T","url":"https://example.com/?a=1&b=2","image":"https://example.com/i.png","icon":"ic_x"}"#
        ),
        ContentCase(##"{"title":"T","image":"https://example.com/i.png","mutable":false,"color":"#1A2b3C"}"##),
        ContentCase(
            #"{"title":"T","actions":[{"id":"a","title":"A","url":"app://a"},{"id":"b","title":"B","url":null}]}"#
        ),
        ContentCase(#"{"title":"T","actions":[],"data":{"actions":"mine"}}"#),
        ContentCase(#"{"badge":3,"data":{"badge_increase":1}}"#),
        ContentCase(#"{"title":"T","category":"NEWS","thread_id":"t, \"1\": x","android_channel":"news"}"#),
        ContentCase(#"{"title":"T","priority":"normal","interruption_level":"time-sensitive","relevance":0.75}"#),
        ContentCase(#"{"title":"T","mutable":true,"available":false,"relevance":1}"#),
        ContentCase(#"{"body":"tab\t newline\n quote\" backslash\\ slash/ del\u007f bell\u0007 emoji🎉"}"#),
        ContentCase(#"{"apns":{"aps":{"alert":{"loc-key":"HELLO","loc-args":["a, b: c","d"]}}}}"#),
        ContentCase(
            #"{"apns":{"headers":{"apns-push-type":"liveactivity","apns-priority":"5"},"aps":{"event":"end"}}}"#
        ),
        ContentCase(#"{"apns":{"headers":{"apns-topic":"com.example.watch","apns-priority":"1"}},"title":"x"}"#),
        ContentCase(
            #"{"title":"x","sound":"s","apns":{"aps":{"sound":null,"alert":{"title":null,"body":"y"}},"k":{"z":null}}}"#
        ),
        ContentCase(#"{"title":"x","apns":{"headers":null,"custom":[1,2]}}"#),
        ContentCase(#"{"data":{"a":"b"},"apns":{"aps":{"content-available":null,"filter-criteria":"f"}}}"#),
        ContentCase(#"{"title":"x","apns":{"headers":{"apns-push-type":"background"},"aps":{"alert":null}}}"#),
        ContentCase(#"{"fcm":{"notification":{"title":"raw"},"android":{"direct_boot_ok":true}}}"#),
        ContentCase(
            #"{"title":"x","fcm":{"notification":null,"data":{"a":"b","c":null},"fcm_options":{"analytics_label":"l"}}}"#
        ),
        ContentCase(#"{"title":"x","fcm":{"android":{"data":{"x":"y"},"notification":{"ticker":"t","tag":"mine"}}}}"#),
        ContentCase(#"{"call":{"event":"incoming"}}"#, kind: "call"),
        ContentCase(
            #"{"call":{"event":"incoming","call_id":"","timeout":30,"video":true},"data":{"a":"b"}}"#,
            kind: "call"
        ),
        ContentCase(#"{"call":{"event":"ended","call_id":"c-78","reason":"answered_elsewhere"}}"#, kind: "call"),
        ContentCase(
            #"{"call":{"event":"incoming","call_id":"c","caller":"Ann","handle":"1","avatar":"https://example.com/a"}}"#,
            kind: "call"
        ),
    ]

    /// Contents that cannot be sent, each with its error.
    package static let refused: [ContentCase] = [
        ContentCase(#"{}"#, "content has nothing to send"),
        ContentCase(#"[]"#, "content must be an object, found array"),
        ContentCase(#""x""#, "content must be an object, found text"),
        ContentCase(#"{"titel":"x"}"#, "content.titel is not known (did you mean title?)"),
        ContentCase(#"{"message":"x"}"#, "content.message is not known"),
        ContentCase(#"{"bagde":1}"#, "content.bagde is not known (did you mean badge?)"),
        ContentCase(#"{"ur":"x"}"#, "content.ur is not known (did you mean url?)"),
        ContentCase(#"{"title":1}"#, "content.title must be text or an object of texts by language, found number"),
        ContentCase(#"{"body":[]}"#, "content.body must be text or an object of texts by language, found array"),
        ContentCase(#"{"title":""}"#, "content.title must not be empty"),
        ContentCase(#"{"title":{"en":"x"}}"#, "content.title needs the key default"),
        ContentCase(#"{"title":{"default":"x","en":1}}"#, "content.title.en must be text, found number"),
        ContentCase(#"{"title":{"default":"x","en":null}}"#, "content.title.en must be text, found null"),
        ContentCase(#"{"title":{"default":"x","en":""}}"#, "content.title.en must not be empty"),
        ContentCase(
            #"{"title":{"default":"x","en_GB":"y"}}"#,
            "content.title.en_GB is not a language tag such as en or pt-BR"
        ),
        ContentCase(
            #"{"title":{"default":"x","Default":"y"}}"#,
            "content.title.Default is given twice in different case"
        ),
        ContentCase(#"{"data":[]}"#, "content.data must be an object, found array"),
        ContentCase(#"{"data":{}}"#, "content has nothing to send"),
        ContentCase(#"{"data":{"note":null}}"#, "content.data.note must not be null"),
        ContentCase(#"{"data":{"from":"+15550100123"}}"#, "content.data.from is reserved by FCM"),
        ContentCase(#"{"data":{"message_type":"x"}}"#, "content.data.message_type is reserved by FCM"),
        ContentCase(#"{"data":{"google.x":"x"}}"#, "content.data.google.x is reserved by FCM"),
        ContentCase(#"{"data":{"gcm_y":"x"}}"#, "content.data.gcm_y is reserved by FCM"),
        ContentCase(#"{"data":{"aps":{}}}"#, "content.data.aps is reserved by APNs"),
        ContentCase(#"{"data":{"url":"x"},"url":"y"}"#, "content.data.url is also written by content.url"),
        ContentCase(#"{"data":{"image":"x"},"image":"y"}"#, "content.data.image is also written by content.image"),
        ContentCase(#"{"data":{"badge":1},"badge":1}"#, "content.data.badge is also written by content.badge"),
        ContentCase(
            #"{"data":{"badge_increase":1},"badge":{"increase":1},"title":"x"}"#,
            "content.data.badge_increase is also written by content.badge"
        ),
        ContentCase(
            #"{"data":{"actions":1},"actions":[{"id":"a","title":"A"}]}"#,
            "content.data.actions is also written by content.actions"
        ),
        ContentCase(#"{"url":1,"title":"x"}"#, "content.url must be text, found number"),
        ContentCase(#"{"image":"","title":"x"}"#, "content.image must not be empty"),
        ContentCase(#"{"icon":true,"title":"x"}"#, "content.icon must be text, found boolean"),
        ContentCase(#"{"url":"https://example.com"}"#, "content has nothing to send"),
        ContentCase(#"{"color":"red","title":"x"}"#, "content.color must be a colour such as #1a2b3c"),
        ContentCase(##"{"color":"#12345","title":"x"}"##, "content.color must be a colour such as #1a2b3c"),
        ContentCase(#"{"actions":{},"title":"x"}"#, "content.actions must be an array, found object"),
        ContentCase(#"{"actions":[1],"title":"x"}"#, "content.actions[0] must be an object, found number"),
        ContentCase(#"{"actions":[{},{},{},{}],"title":"x"}"#, "content.actions must hold at most 3, found 4"),
        ContentCase(#"{"actions":[{"title":"A"}],"title":"x"}"#, "content.actions[0].id is missing"),
        ContentCase(#"{"actions":[{"id":"a"}],"title":"x"}"#, "content.actions[0].title is missing"),
        ContentCase(
            #"{"actions":[{"id":"a","title":7}],"title":"x"}"#,
            "content.actions[0].title must be text, found number"
        ),
        ContentCase(
            #"{"actions":[{"id":"a","title":"A"},{"id":"a","title":"B"}],"title":"x"}"#,
            "content.actions[1].id is used twice"
        ),
        ContentCase(
            #"{"actions":[{"id":"a","label":"A"}],"title":"x"}"#,
            "content.actions[0].label is not known"
        ),
        ContentCase(#"{"badge":"3"}"#, "content.badge must be a whole number, found text"),
        ContentCase(#"{"badge":true}"#, "content.badge must be a whole number, found boolean"),
        ContentCase(#"{"badge":1.5}"#, "content.badge must be a whole number from 0 to 2147483647"),
        ContentCase(#"{"badge":-1}"#, "content.badge must be a whole number from 0 to 2147483647"),
        ContentCase(#"{"badge":2147483648}"#, "content.badge must be a whole number from 0 to 2147483647"),
        ContentCase(#"{"badge":99999999999999999999}"#, "content.badge must be a whole number from 0 to 2147483647"),
        ContentCase(#"{"badge":{}}"#, "content.badge needs either set or increase"),
        ContentCase(#"{"badge":{"set":1,"increase":1}}"#, "content.badge needs either set or increase"),
        ContentCase(#"{"badge":{"increment":1}}"#, "content.badge.increment is not known"),
        ContentCase(#"{"badge":{"increase":1}}"#, "content.badge.increase needs a title, subtitle or body"),
        ContentCase(#"{"sound":1}"#, "content.sound must be text or an object, found number"),
        ContentCase(#"{"sound":""}"#, "content.sound must not be empty"),
        ContentCase(#"{"sound":{"critical":1}}"#, "content.sound.critical must be true or false, found number"),
        ContentCase(#"{"sound":{"volume":2}}"#, "content.sound.volume must be a number from 0 to 1"),
        ContentCase(#"{"sound":{"volume":"1"}}"#, "content.sound.volume must be a number, found text"),
        ContentCase(#"{"sound":{"file":"x"}}"#, "content.sound.file is not known"),
        ContentCase(#"{"title":"x","priority":"urgent"}"#, "content.priority must be one of high, normal"),
        ContentCase(#"{"title":"x","priority":10}"#, "content.priority must be text, found number"),
        ContentCase(
            #"{"title":"x","interruption_level":"timeSensitive"}"#,
            "content.interruption_level must be one of passive, active, time-sensitive, critical"
        ),
        ContentCase(#"{"title":"x","relevance":1.01}"#, "content.relevance must be a number from 0 to 1"),
        ContentCase(#"{"title":"x","mutable":1}"#, "content.mutable must be true or false, found number"),
        ContentCase(#"{"available":"yes"}"#, "content.available must be true or false, found text"),
        ContentCase(#"{"available":false}"#, "content has nothing to send"),
        ContentCase(#"{"title":"x","call":{"event":"incoming"}}"#, "content.call is only for jobs of kind call"),
        ContentCase(#"{"apns":{}}"#, "content has nothing to send"),
        ContentCase(#"{"apns":{"headers":{"apns-push-type":"mdm"}}}"#, "content has nothing to send"),
        ContentCase(#"{"apns":[]}"#, "content.apns must be an object, found array"),
        ContentCase(#"{"apns":{"aps":"x"}}"#, "content.apns.aps must be an object, found text"),
        ContentCase(#"{"apns":{"aps":null}}"#, "content.apns.aps must be an object, found null"),
        ContentCase(#"{"apns":{"headers":[]}}"#, "content.apns.headers must be an object, found array"),
        ContentCase(
            #"{"title":"x","apns":{"headers":{"apns-id":"x"}}}"#,
            "content.apns.headers.apns-id is not known"
        ),
        ContentCase(
            #"{"title":"x","apns":{"headers":{"apns-push-type":"voip"}}}"#,
            "content.apns.headers.apns-push-type is only for jobs of kind call"
        ),
        ContentCase(
            #"{"title":"x","apns":{"headers":{"apns-push-type":"a\nb"}}}"#,
            "content.apns.headers.apns-push-type must be lower-case letters and hyphens"
        ),
        ContentCase(
            #"{"title":"x","apns":{"headers":{"apns-topic":"com.example\nx"}}}"#,
            "content.apns.headers.apns-topic must be letters, digits, hyphens and dots, at most 255"
        ),
        ContentCase(
            #"{"title":"x","apns":{"headers":{"apns-topic":"com.exämple"}}}"#,
            "content.apns.headers.apns-topic must be letters, digits, hyphens and dots, at most 255"
        ),
        ContentCase(
            #"{"title":"x","apns":{"headers":{"apns-priority":"7"}}}"#,
            "content.apns.headers.apns-priority must be one of 1, 5, 10"
        ),
        ContentCase(
            #"{"title":"x","apns":{"headers":{"apns-priority":10}}}"#,
            "content.apns.headers.apns-priority must be text, found number"
        ),
        ContentCase(
            #"{"available":true,"apns":{"headers":{"apns-push-type":"background","apns-priority":"10"}}}"#,
            "content.apns.headers.apns-priority must be 5 for a background push"
        ),
        ContentCase(#"{"fcm":{}}"#, "content has nothing to send"),
        ContentCase(
            #"{"fcm":{"token":"x"}}"#,
            "content.fcm.token is not allowed: the audience says who gets the message"
        ),
        ContentCase(
            #"{"fcm":{"topic":"x"}}"#,
            "content.fcm.topic is not allowed: the audience says who gets the message"
        ),
        ContentCase(
            #"{"fcm":{"android":{"ttl":"1s"}}}"#,
            "content.fcm.android.ttl is not allowed: the job's ttl says it"
        ),
        ContentCase(
            #"{"fcm":{"android":{"collapse_key":"k"}}}"#,
            "content.fcm.android.collapse_key is not allowed: the job's collapse_id says it"
        ),
        ContentCase(#"{"fcm":{"android":null}}"#, "content.fcm.android must be an object, found null"),
        ContentCase(#"{"fcm":{"notification":"x"}}"#, "content.fcm.notification must be an object, found text"),
        ContentCase(#"{"fcm":{"data":{"a":1}}}"#, "content.fcm.data.a must be text, found number"),
        ContentCase(#"{"fcm":{"data":{"from":"x"}}}"#, "content.fcm.data.from is reserved by FCM"),
        ContentCase(#"{"fcm":{"android":{"data":{"a":{}}}}}"#, "content.fcm.android.data.a must be text, found object"),
        ContentCase(#"{}"#, "content.call is missing", kind: "call"),
        ContentCase(#"{"title":"x","call":{}}"#, "content.title is not for jobs of kind call", kind: "call"),
        ContentCase(#"{"call":[]}"#, "content.call must be an object, found array", kind: "call"),
        ContentCase(#"{"call":{}}"#, "content.call.event is missing", kind: "call"),
        ContentCase(#"{"call":{"event":"ring"}}"#, "content.call.event must be one of incoming, ended", kind: "call"),
        ContentCase(
            #"{"call":{"event":"ended"}}"#,
            "content.call.call_id is missing: it says which call has ended",
            kind: "call"
        ),
        ContentCase(
            #"{"call":{"event":"incoming","call_id":7}}"#,
            "content.call.call_id must be text, found number",
            kind: "call"
        ),
        ContentCase(
            #"{"call":{"event":"incoming","call_id":"a\r\nb"}}"#,
            "content.call.call_id must be printable ASCII",
            kind: "call"
        ),
        ContentCase(
            #"{"call":{"event":"incoming","reason":"timeout"}}"#,
            "content.call.reason is only for a call that has ended",
            kind: "call"
        ),
        ContentCase(
            #"{"call":{"event":"incoming","timeout":601}}"#,
            "content.call.timeout must be a whole number from 1 to 600",
            kind: "call"
        ),
        ContentCase(
            #"{"call":{"event":"incoming","callid":"c"}}"#,
            "content.call.callid is not known (did you mean call_id?)",
            kind: "call"
        ),
    ]
}

/// Collapse ids that Swift and SQL must judge alike.
package struct CollapseCase: Sendable {
    package let text: String
    /// What is wrong, or nil.
    package let problem: String?

    package static let all: [CollapseCase] = [
        CollapseCase(text: "order-7", problem: nil),
        CollapseCase(text: "a b", problem: nil),
        CollapseCase(text: String(repeating: "a", count: 64), problem: nil),
        CollapseCase(text: String(repeating: "a", count: 65), problem: "must be at most 64 bytes, found 65"),
        CollapseCase(text: "", problem: "must not be empty"),
        CollapseCase(text: "x\r\nauthorization: bearer y", problem: "must be printable ASCII"),
        CollapseCase(text: "a\tb", problem: "must be printable ASCII"),
        CollapseCase(text: "café", problem: "must be printable ASCII"),
        CollapseCase(text: "del\u{7F}", problem: "must be printable ASCII"),
        CollapseCase(text: " a", problem: "must not begin or end with a space"),
        CollapseCase(text: "a ", problem: "must not begin or end with a space"),
    ]
}

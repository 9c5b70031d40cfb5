# ruff: noqa: E501 - a message is one line
"""Conversations as people have them, in English and in Arabic: messages of 30 to 200 tokens that belong together.

A talk is four projects of one person after each other. Each has the same course with other names, numbers and dates.
"""

from __future__ import annotations

from typing import Any, Final

_ENGLISH: Final = """
U: Hi! I want to {goal} before {deadline}, and I'd like you to help me plan it from start to finish. My total budget is {budget} euros and I have roughly five hours every weekend for it.
A: Happy to help you with that. A plan usually has four parts: measuring and drawing, deciding on materials, getting quotes, and the work itself in the right order. With {budget} euros you have room for good materials if you do the simple work yourself. Shall we begin with the measurements, or do you already have a drawing of the place?
U: I have a rough drawing. The room is {size} metres and the only window faces north, so light is a problem in winter. My neighbour {helper} did something similar last year and offered to lend me his tools.
A: A north window means you should keep the walls light and put the lamps where you work rather than in the middle of the ceiling. For {size} metres I would plan two circuits: one for general light and one for the work area. It is great that {helper} lends you tools, because buying a tile cutter or a sander for a single job hardly pays.
U: Good point. By the way, I'm allergic to {allergy}, so whatever we choose must not contain it. Also please keep your answers short, I read them on my phone in the bus.
A: Understood: nothing with {allergy}, and short answers. Look for products with the label "emission class A+" and ask the shop for the data sheet, since the list of ingredients is printed there and not on the tin.
U: What about the floor? {helper} says {floor} is the best choice, but I have read that it gets scratched quickly when you have a dog. We have a dog called {dog}.
A: {floor} is pleasant to walk on, but soft. With a dog like {dog} take a hard-wax oil finish, because you can repair single boards without sanding the whole floor. Expect about forty euros for a square metre with the oil, plus edges and glue.
U: OK, then we decided to take {floor} with hard-wax oil. My wife likes it too. Can you tell me how much I need to order, with some reserve for cutting?
A: For a room of {size} metres add ten per cent for cutting and mistakes, and order whole packs. Keep one pack unopened for repairs: the colour of the next batch may differ a little. Many shops take unopened packs back within thirty days.
U: I called {shop} this morning. They can deliver on {delivery}, but they want half of the money in advance. Is that normal, and what should I look out for?
A: A deposit of a third to a half is common for goods that are ordered for you. Pay by card or by invoice rather than in cash, and have them write the delivery date, {delivery}, into the order confirmation. If they miss it, you can set a new date and withdraw afterwards.
U: I paid the deposit. The order number is {order}. The contact there is Ms {contact}, her extension is 214. She was very friendly and said that I should call before the lorry comes.
A: Noted. Put the order number {order} on everything you send them. Before the delivery measure the stairs and the door, so that the long packs can be carried in, and clear a dry place: wood should lie in the room for two days before it is laid.
U: Now the electrics. I don't dare to do this on my own, to be honest. Last time I touched a socket I tripped the main switch of the whole house and {dog} hid under the bed for an hour.
A: That is a sensible decision, and in many countries the connection must be done by an electrician anyway. You can save money by making the slots and laying the empty tubes yourself. Ask for a fixed price for six sockets and three lamps, and compare at least two quotes.
U: I have got two quotes: one of 1,350 euros from {electrician} and one of 1,780 euros from a firm in the next town. The cheaper one can only start in three weeks. Which one would you take?
A: If the three weeks do not hold up other work, take the cheaper one, but ask both whether the measuring protocol is included. Without it the insurance may refuse to pay after a fire. You can use the waiting time for painting and for the slots.
U: We will go with {electrician} then. He starts on {start}. I still need to find out whether the protocol is included, nobody could tell me on the phone.
A: Good. Until {start} you can finish the walls. I would ask for the protocol by e-mail, so that you have the answer in writing. Two coats of paint need one weekend, and the slots about half a day if you mark them beforehand.
U: Which paint do you recommend? The walls were painted with something shiny before, and a friend told me that new paint peels off from that. I prefer a warm white, nothing yellow.
A: Sand the shiny paint until it is dull, wash the dust off and put a primer on it, otherwise your friend is right. For a warm white look for a tone with a little red and grey, such as RAL 9010. Test it on a square metre and look at it in the evening with the lamps on.
U: I bought the primer and ten litres of RAL 9010 for 118 euros. The shop assistant gave me a guide with pictures, it's at https://example.com/guides/{slug} if you want to have a look.
A: That is a fair price. I cannot open links by myself, but if you paste the part that you are unsure about, I can go through it with you. With ten litres you can paint the room twice, with some left for corrections.
U: Short update: the walls are done, and it looks much brighter than before! It took me two weekends instead of one, though, because I had to fill a lot of old holes.
A: Well done, and two weekends is normal with old walls. Let the paint cure for a week before you lean anything against it. Next comes the work of {electrician} on {start}, and then the floor, so the dust does not spoil the new boards.
U: The electrician was here. Everything works, and the protocol was included after all. He charged 1,350 euros as agreed. So what is left of my {budget} euros, roughly?
A: So far you told me of the paint for 118 euros and the electrician for 1,350 euros, beside the deposit for the floor. Take these and the second half for the floor off the {budget} euros, and keep about ten per cent for surprises. If you tell me the price of the floor, I can add it up exactly.
U: The floor came to 1,120 euros in all. One more thing: the meeting with the landlord is on {meeting} at half past four, he wants to see everything before he signs the new contract.
A: Then you have spent 2,588 euros. For the meeting on {meeting} bring the protocol, the invoices and photos from before and after. Ask him to write into the contract that the floor stays yours or that he pays for it when you move out.
U: He signed! And he will pay 400 euros towards the floor. Thanks, this went really well. Let's see whether we finish everything before {deadline}.
A: Congratulations, that is a good result. What remains is laying the last row of boards, the skirting and the lamps over the work area. If you keep your five hours every weekend, you will be done well before {deadline}.
U: One question is still open for me: should the skirting be glued or screwed? The walls are not very straight, especially behind the door, and {helper} and I disagree about it.
A: On crooked walls screws with plugs are better, since you can pull the skirting to the wall and take it off again later. Glue needs an even surface and tears the plaster off when you remove it. Fill the gap at the top with acrylic, not with silicone, because silicone cannot be painted.
U: Then screws it is. {helper} will laugh, but he was right this time. I'll buy oak skirting at {shop}, eighteen metres, and start next Saturday if the weather is bad enough to stay in.
A: Eighteen metres is right for the room with a little reserve. Cut the corners at forty-five degrees and begin in the corner that one sees first from the door. Screws every sixty centimetres are enough, and closer where the wall bends away.
"""

_ARABIC: Final = """
U: مرحبا! أريد أن {goal} قبل {deadline}، وأحتاج مساعدتك في التخطيط خطوة بخطوة. ميزانيتي الكاملة {budget} ريال، ولدي خمس ساعات تقريبا في نهاية كل أسبوع.
A: أهلا بك، يسعدني ذلك. الخطة عادة أربعة أجزاء: القياس والرسم، ثم اختيار المواد، ثم عروض الأسعار، ثم التنفيذ بالترتيب الصحيح. بميزانية {budget} ريال تستطيع شراء مواد جيدة إذا قمت بالأعمال السهلة بنفسك. هل نبدأ بالقياسات؟
U: عندي رسم أولي. مساحة الغرفة {size} مترا، والنافذة الوحيدة تطل على الشمال، فالإضاءة ضعيفة في الشتاء. جاري {helper} عمل شيئا مشابها في العام الماضي وعرض أن يعيرني أدواته.
A: النافذة الشمالية تعني أن الجدران يجب أن تكون فاتحة، وأن توضع المصابيح فوق مكان العمل لا في وسط السقف. ومن الجيد أن {helper} يعيرك الأدوات، لأن شراء قاطع البلاط لعمل واحد لا يستحق ثمنه.
U: ملاحظة مهمة: عندي حساسية من {allergy}، فلا أريد أي مادة تحتوي عليه. ومن فضلك اجعل إجاباتك قصيرة لأنني أقرأها على الهاتف.
A: مفهوم: لا شيء فيه {allergy}، وإجابات قصيرة. ابحث عن المنتجات منخفضة الانبعاثات، واطلب من المتجر ورقة البيانات لأن المكونات مكتوبة فيها وليست على العلبة.
U: ماذا عن الأرضية؟ {helper} يقول إن {floor} أفضل خيار، لكنني قرأت أنه يخدش بسرعة إذا كان في البيت قط. وعندنا قط اسمه {dog}.
A: {floor} مريح في المشي لكنه لين. مع قط مثل {dog} اختر طلاء زيتيا شمعيا، فيمكنك إصلاح لوح واحد دون صنفرة الأرضية كلها. السعر نحو مئة وخمسين ريالا للمتر مع الزيت والحواف والغراء.
U: حسنا، قررنا أن نأخذ {floor} مع الطلاء الزيتي، وزوجتي موافقة أيضا. كم يجب أن أطلب مع احتياط للقص؟
A: لغرفة مساحتها {size} مترا أضف عشرة في المئة للقص والأخطاء، واطلب علبا كاملة. واحتفظ بعلبة مغلقة للإصلاح لأن لون الدفعة التالية قد يختلف قليلا.
U: اتصلت اليوم بمتجر {shop}. يمكنهم التوصيل يوم {delivery}، لكنهم يطلبون نصف المبلغ مقدما. هل هذا طبيعي؟ وإلى ماذا أنتبه؟
A: دفع الثلث أو النصف مقدما شائع في البضائع التي تطلب خصيصا لك. ادفع بالبطاقة لا نقدا، واجعلهم يكتبون موعد التوصيل {delivery} في تأكيد الطلب، فإن تأخروا حق لك أن تحدد موعدا جديدا ثم تنسحب.
U: دفعت المقدم، ورقم الطلب {order}. المسؤولة هناك اسمها {contact}، وتحويلتها 214. كانت لطيفة وقالت إن علي أن أتصل قبل وصول الشاحنة.
A: ممتاز. اكتب رقم الطلب {order} في كل رسالة. وقبل التوصيل قس الدرج والباب حتى تدخل العلب الطويلة، وجهز مكانا جافا لأن الخشب يجب أن يبقى يومين في الغرفة قبل تركيبه.
U: الآن الكهرباء. بصراحة لا أجرؤ على عملها وحدي. آخر مرة لمست مقبسا انقطعت الكهرباء عن البيت كله واختبأ {dog} تحت السرير ساعة كاملة.
A: قرار حكيم، وفي كثير من البلدان يجب أن يقوم كهربائي مرخص بالتوصيل. تستطيع التوفير بفتح المجاري وتمديد الأنابيب الفارغة بنفسك. اطلب سعرا ثابتا لستة مقابس وثلاثة مصابيح وقارن عرضين على الأقل.
U: وصلني عرضان: الأول 1350 ريالا من {electrician}، والثاني 1780 ريالا من شركة في المدينة المجاورة. الأرخص لا يستطيع البدء إلا بعد ثلاثة أسابيع. أيهما تختار؟
A: إذا كانت الأسابيع الثلاثة لا تعطل بقية العمل فخذ الأرخص، لكن اسأل الاثنين هل محضر القياس مشمول في السعر. من دونه قد ترفض شركة التأمين الدفع بعد حريق.
U: سنختار {electrician} إذن، ويبدأ يوم {start}. ما زلت لا أعرف هل المحضر مشمول في السعر، فلم يجبني أحد على الهاتف.
A: جيد. حتى {start} تستطيع إنهاء الجدران. اسأل عن المحضر بالبريد الإلكتروني حتى يكون الجواب مكتوبا. طبقتان من الدهان تحتاجان عطلة أسبوع واحدة.
U: أي دهان تنصح به؟ كانت الجدران مدهونة بدهان لامع، وقال لي صديق إن الدهان الجديد يتقشر عنه. أفضل الأبيض الدافئ ولا أريد شيئا أصفر.
A: اصنفر الدهان اللامع حتى يصير مطفيا، ثم اغسل الغبار وضع طبقة أساس، وإلا فصديقك على حق. للأبيض الدافئ ابحث عن درجة فيها قليل من الأحمر والرمادي مثل RAL 9010، وجربها على متر مربع في المساء.
U: اشتريت الأساس وعشرة لترات من RAL 9010 بمبلغ 118 ريالا. وأعطاني البائع دليلا مصورا على الرابط https://example.com/guides/{slug} إن أردت الاطلاع عليه.
A: هذا سعر مناسب. لا أستطيع فتح الروابط بنفسي، لكن إن نسخت لي الجزء الذي لست متأكدا منه راجعته معك. عشرة لترات تكفي لدهان الغرفة مرتين.
U: آخر الأخبار: انتهت الجدران، والغرفة أكثر إضاءة من قبل! لكنها أخذت مني عطلتين بدل واحدة لأنني ملأت ثقوبا قديمة كثيرة.
A: أحسنت، وعطلتان أمر طبيعي مع الجدران القديمة. اترك الدهان أسبوعا قبل أن تسند إليه شيئا. بعد ذلك يأتي عمل {electrician} يوم {start} ثم الأرضية، حتى لا يفسد الغبار الألواح الجديدة.
U: جاء الكهربائي وكل شيء يعمل، والمحضر كان مشمولا في النهاية. أخذ 1350 ريالا كما اتفقنا. كم بقي تقريبا من {budget} ريال؟
A: ذكرت لي حتى الآن الدهان بمبلغ 118 ريالا والكهرباء بمبلغ 1350 ريالا، إضافة إلى مقدم الأرضية. اطرح هذا والنصف الثاني للأرضية من {budget} ريال، واترك عشرة في المئة للمفاجآت.
U: كلفت الأرضية 1120 ريالا كاملة. وشيء آخر: موعدي مع المؤجر يوم {meeting} في الرابعة والنصف، ويريد أن يرى كل شيء قبل أن يوقع العقد الجديد.
A: إذن أنفقت 2588 ريالا. أحضر إلى الموعد يوم {meeting} المحضر والفواتير وصورا قبل العمل وبعده، واطلب أن يكتب في العقد أن الأرضية تبقى لك أو أنه يدفع ثمنها عند خروجك.
U: وقع العقد! وسيدفع 400 ريال من ثمن الأرضية. شكرا لك، سار كل شيء على ما يرام. لنر هل ننتهي قبل {deadline}.
A: مبارك، هذه نتيجة جيدة. بقي تركيب الصف الأخير من الألواح والحواف والمصابيح فوق مكان العمل. إن حافظت على خمس ساعات كل أسبوع فستنتهي قبل {deadline} بوقت كاف.
U: بقي سؤال واحد: هل ألصق الحواف بالغراء أم أثبتها بالبراغي؟ الجدران ليست مستقيمة خصوصا خلف الباب، وأنا و{helper} مختلفان في ذلك.
A: في الجدران المائلة البراغي أفضل، لأنك تشد الحافة إلى الجدار وتستطيع فكها لاحقا. الغراء يحتاج سطحا مستويا ويقلع الجص عند إزالته. واملأ الفراغ العلوي بالأكريليك لا بالسيليكون.
"""

_FILLS: Final = {
    "en": (
        {
            "goal": "renovate the kitchen of our flat in Porto", "deadline": "the end of September", "budget": "6,400",
            "size": "14 square", "helper": "Joaquim", "allergy": "formaldehyde", "floor": "Cork parquet",
            "dog": "Biscuit", "shop": "Madeiras Lopes", "delivery": "12 June", "order": "PT-48213",
            "contact": "Ferreira", "electrician": "Rui Antunes", "start": "3 July", "slug": "kitchen-walls",
            "meeting": "21 August",
        },
        {
            "goal": "turn the cellar of my parents' house into a small studio", "deadline": "Christmas",
            "budget": "9,800", "size": "22 square", "helper": "Torsten", "allergy": "latex", "floor": "Pine boards",
            "dog": "Biscuit", "shop": "Holzland Becker", "delivery": "9 October", "order": "DE-90177",
            "contact": "Vogel", "electrician": "Elektro Hahn", "start": "28 October", "slug": "damp-cellars",
            "meeting": "4 December",
        },
        {
            "goal": "build a garden office behind the garage", "deadline": "Easter", "budget": "12,500",
            "size": "9 square", "helper": "Mireille", "allergy": "turpentine", "floor": "Larch planks",
            "dog": "Biscuit", "shop": "Bois du Rhône", "delivery": "17 February", "order": "FR-33560",
            "contact": "Garnier", "electrician": "Luc Perrin", "start": "2 March", "slug": "garden-office",
            "meeting": "26 March",
        },
        {
            "goal": "make the attic of the holiday house fit for guests", "deadline": "midsummer", "budget": "7,900",
            "size": "18 square", "helper": "Anneli", "allergy": "birch pollen", "floor": "Spruce boards",
            "dog": "Biscuit", "shop": "Byggtrall Lund", "delivery": "5 May", "order": "SE-71904",
            "contact": "Lindqvist", "electrician": "Oskar El", "start": "19 May", "slug": "attic-rooms",
            "meeting": "11 June",
        },
    ),
    "ar": (
        {
            "goal": "أجدد مطبخ شقتنا في جدة", "deadline": "نهاية شهر سبتمبر", "budget": "26000", "size": "14",
            "helper": "منصور", "allergy": "الفورمالديهايد", "floor": "خشب الفلين", "dog": "مشمش",
            "shop": "أخشاب النخيل", "delivery": "12 يونيو", "order": "SA-48213", "contact": "هند",
            "electrician": "سامي العتيبي", "start": "3 يوليو", "slug": "kitchen-walls", "meeting": "21 أغسطس",
        },
        {
            "goal": "أحول قبو بيت والدي إلى مرسم صغير", "deadline": "شهر رمضان", "budget": "39000", "size": "22",
            "helper": "فيصل", "allergy": "اللاتكس", "floor": "خشب الصنوبر", "dog": "مشمش", "shop": "دار الأثاث",
            "delivery": "9 أكتوبر", "order": "SA-90177", "contact": "ليلى", "electrician": "مؤسسة النور",
            "start": "28 أكتوبر", "slug": "damp-cellars", "meeting": "4 ديسمبر",
        },
        {
            "goal": "أبني مكتبا صغيرا في الحديقة خلف المرآب", "deadline": "عيد الفطر", "budget": "52000", "size": "9",
            "helper": "بدر", "allergy": "زيت التربنتين", "floor": "خشب الأرز", "dog": "مشمش", "shop": "ورشة الساحل",
            "delivery": "17 فبراير", "order": "SA-33560", "contact": "نورة", "electrician": "خالد الحربي",
            "start": "2 مارس", "slug": "garden-office", "meeting": "26 مارس",
        },
        {
            "goal": "أجهز علية بيت المصيف للضيوف", "deadline": "بداية الصيف", "budget": "31000", "size": "18",
            "helper": "طلال", "allergy": "غبار الإسمنت", "floor": "خشب السرو", "dog": "مشمش", "shop": "مناشر الجبل",
            "delivery": "5 مايو", "order": "SA-71904", "contact": "ريم", "electrician": "ورشة الشرق",
            "start": "19 مايو", "slug": "attic-rooms", "meeting": "11 يونيو",
        },
    ),
}  # fmt: skip
# What assistants add to an answer. The same sentences come back again and again, as they do in real chats.
_ENGLISH_CLOSINGS: Final = """
As a next step I suggest that you write down the three most important wishes for the room, with the money you would spend on each. That makes it easier to say no to nice offers in the shop, and we can check every decision against the list.
A small hint for the order of the work: everything that makes dust comes first, everything that must stay clean comes last. If two jobs seem to need each other, take a photo and describe them to me, and we will find out together which one can wait.
If you like, I can turn this into a short checklist that you can print, with the things to buy on the left and the things to do on the right. Just tell me how many weekends you want to plan for, and whether anybody will help you.
""".strip().splitlines()
_ARABIC_CLOSINGS: Final = """
كخطوة تالية أقترح أن تكتب أهم ثلاث رغبات للغرفة مع المبلغ الذي تقبل أن تنفقه على كل منها، فهذا يسهل رفض العروض الجميلة في المتجر، ونستطيع مراجعة كل قرار على القائمة.
نصيحة صغيرة في ترتيب العمل: كل ما يثير الغبار يأتي أولا، وكل ما يجب أن يبقى نظيفا يأتي أخيرا. وإذا بدا لك أن عملين يحتاج كل منهما إلى الآخر فصفهما لي لنعرف أيهما ينتظر.
إن أحببت حولت هذا إلى قائمة قصيرة للطباعة، المشتريات في اليمين والأعمال في اليسار. أخبرني فقط كم عطلة أسبوع تريد أن تخطط لها وهل يساعدك أحد.
""".strip().splitlines()
_TALKS: Final = {"en": (_ENGLISH, _ENGLISH_CLOSINGS), "ar": (_ARABIC, _ARABIC_CLOSINGS)}
_ROLES: Final = {"U": "user", "A": "assistant"}


def realistic_turns(language: str) -> list[list[dict[str, Any]]]:
    """Return more than 60 turns of about 160 tokens: a user message and its answer. `language` is "en" or "ar"."""
    template, closings = _TALKS[language]
    messages: list[dict[str, Any]] = []
    for project, fill in enumerate(_FILLS[language]):
        for number, line in enumerate(template.strip().splitlines()):
            role, _, text = line.partition(": ")
            content = text.format(**fill)
            if role == "A":
                content += "\n\n" + closings[number // 2 % len(closings)]
            messages.append({"role": _ROLES[role], "content": content, "id": f"{language}-{project}-{number}"})
    return [messages[start : start + 2] for start in range(0, len(messages), 2)]

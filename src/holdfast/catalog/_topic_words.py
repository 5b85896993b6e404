"""The vocabulary of topics: which words speak for which topic.

``word!`` speaks strongly for it, ``word!!`` decides it, ``word?`` says little, ``word*`` stands
for its usual endings too. English first, then words of other languages.
"""

from __future__ import annotations

TOPIC_WORDS: dict[str, str] = {
    # Work on software
    "testing": """
        pytest! unittest! jest! vitest! mocha! junit! playwright! cypress! selenium! rspec! phpunit!
        test* testcase* flaky! fixture* mock* stub* assert* assertion* coverage! regression* suite?
        hypothesis? tdd! e2e! spec? snapshot? testen prüfling testfall testfälle testabdeckung
        pruebas unitarias tests? testet couverture
    """,
    "debugging": """
        debug*! bug* traceback! stacktrace! exception* crash* segfault! deadlock! freeze* hang*
        keyerror! typeerror! valueerror! nullpointerexception! panic? breakpoint* reproduce* error*
        fail* failure* broken? undefined? nullpointer leak* fehler fehlermeldung absturz stürzt
        fehlersuche erreur* bogue planté excepción fallo depurar log? logs? warning? malfunction*
        misbehave* errno stderr root?
    """,
    "refactoring": """
        refactor*! cleanup! extract* restructure* simplify* rename? duplicate* duplication
        deduplicate* decouple* modular* readability legacy! aufräumen! umbauen! refaktorieren!
        vereinfachen typisiert refactoriser! refactorizar! split? behaviour? behavior? unchanged?
        interface? class? classes? method? private? dead?
    """,
    "docs": """
        readme! docs! documentation! docstring*! changelog! sphinx! mkdocs! javadoc! jsdoc!
        document* comment* tutorial* howto! troubleshoot*? guide? wiki? dokumentation!
        dokumentieren! anleitung documenter! documentación! documentar! markdown? quickstart!
        example? md?
    """,
    "database": """
        sql! postgres! postgresql! mysql! mariadb! sqlite! mongodb! redis! oracle? bigquery! psql!
        snowflake? dynamodb! cassandra! pgloader! database*! schema* migration* backfill! select?
        query* queries! join* index* table* row* column* transaction* replication sharding orm!
        activerecord! sqlalchemy! prisma! rollback nullable primary? foreign? datenbank*! tabelle
        tabellen abfrage abfragen données? basededonnées tabla tablas consulta datos? filas esquema
        where? insert? order? deadlocks?
    """,
    "security": """
        security! vulnerabilit* vulnerability! vulnerabilities! cve! exploit* xss! csrf! injection!
        traversal! password* secret* token? tokens? credential* encrypt* decrypt* hash* hashed salt?
        argon2! bcrypt! sha1! oauth! jwt! permission* auth! authentication authorization attack*
        attacker* malware! phishing! firewall? audit* sandbox? login? cookie? rotate? leak?
        sicherheit sicherheitslücke! lücke angriff verschlüssel* passwort passwörter kennwort
        sécurité! vulnérabilité! faille! seguridad! vulnerabilidad! contraseña* cifrado tls ssl
    """,
    "frontend": """
        frontend! css! scss! tailwind! bootstrap! react! vue! svelte! angular! nextjs! html! dom!
        jsx! tsx! component* modal* button* scroll* scrollbar* flexbox! grid? layout? responsive!
        viewport! hydrat* useeffect! usestate! hook* render* browser* page? webpack! vite! ui
        accessibility! aria! tooltip* dropdown* navbar! sidebar* animation* pixel? javascript?
        typescript? darkmode schaltfläche bouton* botón componente* composant*
    """,
    "backend": """
        backend! server* microservice* django! flask! fastapi! rails! spring? express? axum! tokio!
        actix! nestjs! laravel! worker* queue* celery! kafka! rabbitmq! grpc! handler* middleware!
        session? async* thread* socket* connection* concurren* golang
    """,
    "api": """
        api! apis! rest! graphql! openapi! swagger! endpoint*! webhook*! http! https? request*
        response* json? payload* pagination! cursor? header* client? sdk! curl? postman! stripe?
        schnittstelle! schnittstellen! endpunkt* requête? 400? 401? 403? 404? 500? 429
    """,
    "devops": """
        docker! dockerfile! kubernetes! kubectl! k8s! helm! pod* terraform! ansible! jenkins! gitlab
        ci cd pipeline* deploy*! deployment*! deployments! container* image? images? registry?
        runner* cluster* ingress! rollout nginx! systemd! systemctl! gunicorn! prod? production?
        staging aws! azure? gcp! ec2! s3? lambda? cron? crontab? backup* monitoring prometheus!
        grafana! postmortem! outage! oom! infrastructure! bereitstellung! déploiement! déployer!
        despliegue! desplegar! yml? yaml? github? workflow* actions? release* server?
    """,
    "git": """
        git! commit* rebase*! squash! cherry? merge* branch* stash* checkout? head? origin?
        upstream? conflict* pull? push* repository? repo? blame? bisect! gitignore! fusion? conflit?
        konflikt? reflog! detached? submodule*!
    """,
    "performance": """
        performance! slow* latency! throughput! profil* profiler! benchmark*! optimi* optimise!
        optimize! optimization! bottleneck*! hyperfine! flamegraph! cache* caching faster! speed*
        memory? cpu? n+1! startup? seconds? ms? langsam schneller leistung rendimiento! lento lenta
        lenteur! optimiser stutter* fps? lag? lazy?
    """,
    "shell": """
        bash! zsh! fish? shell! awk! sed! grep? find? xargs! script* cron! crontab! chmod! rsync!
        terminal! regex! glob! stdin pipe? loop? rename? recursive? exiftool! ffmpeg! powershell!
        commandline kommandozeile
    """,
    "networking": """
        wireguard! vpn! dns! tcp! udp! subnet! router! routing! iptables! nat! firewall! lan! wlan!
        wifi! ping! dhcp! ethernet! ip? ipv4 ipv6! tunnel* handshake? port? proxy* netzwerk! réseau?
        traceroute! packet* bandwidth gateway*
    """,
    "mobile": """
        ios! android! iphone? ipad? xcode! swift! swiftui! kotlin! flutter! simulator! podfile! pod?
        gradle! provisioning! testflight! appstore! apk! mobile? app? dart! widget* emulator*
        smartphone?
    """,
    "embedded": """
        esp32! arduino! raspberry! microcontroller! stm32! gpio! pwm! i2c! spi! uart! firmware!
        sensor* motor* solder* resistor* capacitor* voltage! brownout! breadboard! circuit* diode*
        transistor* pcb!
    """,
    "machine-learning": """
        pytorch! tensorflow! keras! sklearn! huggingface! transformer* finetun* finetuning! llm!
        llms! model? models? training? train? epoch* overfit*! loss? gradient* neural! dropout!
        embedding*! classifier*! dataset* inference! quantiz* quantization! gpu? cuda! ollama! rag!
        prompt* learning? accuracy f1? hyperparameter* reinforcement! diffusion! lora! maschinelles
        apprentissage? aprendizaje?
    """,
    "data-analysis": """
        pandas! numpy! matplotlib! seaborn! jupyter! notebook* csv! xlsx! excel! spreadsheet* plot*
        chart* boxplot! histogram! scatter* groupby! dataframe! cohort*! retention! outlier*
        correlat* regression? statistic* median! percentile! quantile! mean? average* trend*
        significan* variance dashboard? survey* analy* auswerten! auswertung! diagramm! umfrage!
        mittelwert! streuung signifikant! graphique! moyenne! statistique* gráfico! media? promedio!
        encuesta! df? pivot! sheet? kpi!
    """,
    "game-development": """
        godot! unity! unreal! gamedev! sprite*! collision* hitbox! tilemap! shader* player?
        velocity! gravity! physics? npc! spawn* pathfinding! jump* platformer! characterbody2d! gd
        gdscript! rigidbody!
    """,
    "design": """
        logo*! typeface! typography! font* kerning! svg! figma! sketch? mockup* wireframe* palette!
        contrast* colour* color* brand* illustration* poster* layout* icon* photoshop! ux! visual*
        stroke* shape* gestaltung! schriftart! entwurf? maquette! couleur? diseño! logotipo!
    """,
    # Words and learning
    "writing": """
        novel! chapter*! paragraph*! poem*! poetry! story stories essay*! blog* prose! sentence*
        character? plot? draft* rewrite* rephrase! tone! rhyme* stanza* verse* fiction? narrator!
        dialogue* dialog? manuscript! editing? proofread*! wording! tighten headline* slogan*
        tagline* speech* script? screenplay! review? gedicht! strophe! reim! text? schreib* aufsatz!
        kapitel! geschichte? roman? poème! rédiger! rédaction! écrire! nouvelle? chapitre! poema!
        escribir! redactar! cuento! novela! capítulo! cover? letter* words?
    """,
    "email": """
        email*! mail! mails! inbox? subject? regards! dear! newsletter* reply* cc? sincerely! heads?
        recipient* mailing? betreff! mfg! grüßen! courriel! cordialement! correo! asunto saludos!
        outlook? gmail?
    """,
    "translation": """
        translate!! translation!! translated! translator*! translating! übersetz!! übersetze!!
        übersetzen!! übersetzung!! traduire!! traduis!! traduction!! traduce!! traducir!!
        traducción!! traduzione! traduzir! german? french? spanish? english? italian? japanese?
        chinese? russian? anglais? allemand? deutsch? englisch? inglés? alemán? localis* localiz*
        subtitle* equivalent? équivalent?
    """,
    "language-learning": """
        grammar! vocabulary! vocab! conjugat* conjugation! subjunctive! pronunciation! pronounce*!
        verb* tense* noun* plural? fluent! duolingo! flashcard* idiom* expression? expressions?
        grammatik! vokabel* aussprache! konjugation! grammaire! vocabulaire! conjugaison!
        prononciation! gramática! vocabulario! pronunciación! dit? cómo? difference? exercice!
        ejercicio! übung! sentences? phrase*
    """,
    "education": """
        homework! school! teacher*! pupil* student* class? lesson* grade* worksheet*! exam*! exams!
        essay? university! curriculum! classroom! kindergarten! study* studying thesis? course*
        learn* quiz* talk? presentation* hausaufgabe* schule! unterricht! lehrer* prüfung! klausur!
        referat! école! devoirs! élève* professeur! examen! cours? escuela! tarea! deberes!
        profesor* daughter? son?
    """,
    "maths": """
        maths! math! equation*! theorem*! proof* prove* integral* derivative*! matrix! matrices!
        algebra! geometry! calculus! fraction*! polynomial* logarithm* square? root? irrational!
        probability! triangle* vector? eigenvalue* prime? even? odd? sqrt! squared! multipl* sum?
        gleichung! ableitung! bruch? wahrscheinlichkeit! beweis! mathe! mathematik! dérivée!
        équation! théorème! intégrale! fonction? extremum* extremums! derivada! ecuación!
        matemáticas! integrales! probabilidad! calcule calculer
    """,
    "science": """
        physics! chemistry! biology! quantum! molecule*! atom* atoms! galax* galaxies! galaxy!
        universe! planet* star? stars? astronom* telescope! evolution! dna! gene* protein? cell?
        species! experiment* hypothesis? photosynthesis! electron* ion* ions! acid* chemical*
        radiation! gravity? energy? light? kelvin! relativity! insect* geology! climate! chemie*
        physik*! biologie! chemieunterricht! ionen! molekül! säure! versuch? teilchen! física!
        química! biología! chimie! physique? atome! molécule!
    """,
    "history": """
        history! historical! century! centuries! medieval! ancient! empire! emperor! war? wars?
        dynasty! revolution! roman? romans! greek? king? queen? civilization! archaeolog* treaty!
        crusade* renaissance! colonial* museum? decline? league? napoleon! wwii! ww2! jahrhundert!
        mittelalter! römer! krieg? weltkrieg! siècle! histoire? guerre! siglo! historia? guerra!
        imperio! diet?
    """,
    # Daily life
    "travel": """
        travel*! trip*! flight*! hotel*! itinerary! airport! airline* luggage! hostel! passport!
        visa! tourist* tourism! vacation! holiday* sightsee* train? trains? beach* museum? airbnb!
        booking? cruise! road? backpack* tram? ferry! island* city? tour? guidebook! stay? nights?
        jetlag! reise* reisen! urlaub! flug! flüge! bahn? strand! unterkunft! ausflug! voyage*!
        voyager! vacances! vol? vols! séjour! billet* itinéraire! hôtel* hôtels! plage! viaje*!
        viajar! vuelo* vacaciones! playa! equipaje! itinerario! viaggio! voucher? tokyo? paris?
        rome? london? lisbon? kyoto? barcelona? portugal? italy? japan? japon? iceland? greece?
    """,
    "cooking": """
        cook*! recipe*! bake* baking! oven! dough! flour! butter! sugar! salt? pepper? garlic!
        onion* ingredient*! simmer* boil* fry* fried? roast* grill* sauce* soup! bread! sourdough!
        yeast! cake! cookie? cookies? curry! pasta! rice? tofu! potato* tomato* cheese! egg* eggs!
        vegan! vegetarian! dinner* lunch? breakfast? meal* dish? dishes? kitchen? spice* oil?
        rezept! kochen! backen! ofen! teig! mehl! zwiebel! knoblauch! kürbis! linsen! köcheln!
        anbraten! zutaten! kartoffel* recette! cuisine! cuisson! four? farine! beurre! sucre!
        oignon! receta! cocinar! cocina? harina! huevo* huevos! cebolla! aceite! sartén! tortilla!
        patatas! horno! ajo! azúcar!
    """,
    "health": """
        health! doctor*! symptom*! pain* ache* headache! fever! medication! medicine! blood!
        disease! diagnos* vitamin* supplement* infection! allerg* allergy! surgery! hospital!
        pregnan* thyroid! diabetes! cholesterol! therapy? therapist? dentist! tooth? teeth?
        physiotherap* rash! cough* virus? vaccine* sleep? tired exhausted iron? ferritin! diet? gut!
        dietitian! pediatrician! nurse* clinic! injur* hurt* arzt! ärztin! schmerz* fieber! krank*
        krankheit! medikament* gesundheit! médecin! douleur! fièvre! maladie! santé! médicament!
        médico! dolor! fiebre! enfermedad! salud! síntoma* pharmac*
    """,
    "fitness": """
        gym! workout*! marathon! running? run? runs? squat* deadlift! bench? dumbbell* barbell!
        repetition* reps! sets? protein? muscle* cardio! yoga! stretch* interval* km? kilometre*
        training? exercise* plank! lunges! strength* jog* cycling! swim* weight? knee? trainieren!
        laufen? muskel* fitnessstudio! entraînement! musculation! courir entrenamiento! gimnasio!
        correr
    """,
    "psychology": """
        anxiety! anxious! panic! depress* depression! therapy! therapist! cognitive! stress* trauma!
        burnout! mindfulness! meditat* emotion* feeling? feelings? afraid fear* lonely! loneliness!
        self? cope* coping adhd! psycholog* angst! therapeut* psyche! gefühl* anxiété! dépression!
        ansiedad! depresión! breathe? overwhelm*
    """,
    "relationships": """
        friend* friendship! boyfriend! girlfriend! husband! wife! partner? marriage! divorce!
        dating! date? argument? apologise* apologize* sorry? birthday? love? ex? breakup! family?
        mother? father? sister? brother? freund* freundin! beziehung! ehe! streit! ami? amie?
        couple! pareja! amigo* novia! novio! hurt? forgive!
    """,
    "parenting": """
        baby! babies! toddler*! newborn! breastfeed* diaper* nappy! teething! bedtime! daycare!
        tantrum* crawling! child? children? kid? kids? parent* months? kinderwagen? säugling! kita!
        kind? kinder? bébé! crèche! enfant* bebé! niño* guardería! stroller?
    """,
    "pets": """
        dog! dogs! cat? cats? puppy! kitten*! vet! veterinar* pet! pets! leash! litter? hamster!
        rabbit* parrot! aquarium? snake! terrarium! prey! fur? feed? hund! hunde! katze* welpe!
        tierarzt! haustier! chien! chat? chaton! vétérinaire! perro* gato* veterinario! mascota!
        vivarium!
    """,
    "finance": """
        budget! invest*! investment! stock* fund* funds! etf! loan*! mortgage! interest? bank!
        saving* savings! tax! taxes! pension! salary? insurance! credit! debt! inflation! dividend*
        portfolio! bitcoin? crypto? money! euro? euros? invoice* accounting! expense* repay*
        subscription* subscriptions refund? compensation? steuer* umsatzsteuer! finanzamt! rechnung!
        kredit! zinsen! geld! aktie* konto! sparen! versicherung! impôt* prêt! épargne! banque!
        argent? facture! impuesto* préstamo! ahorro* banco! dinero! factura! rent?
    """,
    "legal": """
        contract*! lawyer*! law! laws! legal! clause*! landlord! tenant*! lease! deposit! court!
        lawsuit! liabilit* liability! nda! gdpr! copyright! license* licence* confidential!
        agreement? penalty! attorney! sue! rights? statute* jurisdiction! breach! neighbour?
        deadline? vertrag* klausel! anwalt! mietvertrag! kündigung! recht? gesetz! kaution! mieter!
        vermieter! contrat! avocat! bail! loi? juridique! tribunal! contrato! abogado! ley!
        cláusula! inquilino! alquiler? ustg! §
    """,
    "career": """
        job? jobs? interview*! resume? cv! salary! career! recruiter* hiring! promotion! manager?
        boss! colleague* coworker* linkedin! internship! employer* employee* apply* application?
        hire* cover? role? negotiat* onboarding! bewerbung! lebenslauf! vorstellungsgespräch!
        gehalt! kündigen chef? arbeit? emploi! entretien! salaire! embauche! trabajo! entrevista!
        currículum! sueldo! empleo! track?
    """,
    "home": """
        dishwasher! washing? plumb* sink! pipe? drain* toilet! faucet! radiator! heating! furniture!
        paint* drill* wall? walls? ceiling! roof! tiles! renovat* repair* fridge! vacuum* cleaning?
        mould! mold? leak? screw* apartment? house? flat? fence! spülmaschine! waschmaschine!
        heizung! wasserhahn! renovieren! möbel! wohnung? bricolage! plomberie! chauffage! meuble*
        lavadora! lavavajillas! grifo! calefacción! muebles! hose? filter? pump*
    """,
    "gardening": """
        garden*! plant! plants! soil! seed* seeds! lawn! compost! prune* weed? weeds! fertili*
        fertilizer! leaf? leaves! flower* tomatoes? mulch! pest* aphid*! blossom* tree? trees? moss!
        greenhouse! shrub* hedge! herb? herbs? bulb* garten! pflanze* rasen! blumen! beet? erde?
        dünger! säen! jardin! plante* pelouse! fleur* semis jardín! planta* césped! flores! abono!
        fungus grub? grubs! sow
    """,
    "shopping": """
        buy* price? prices? cheap* cheaper recommend* brand? discount? deal? deals? laptop?
        warranty? product? amazon! store? compare? comparison? kaufen! preis? günstig* empfehl*
        acheter! acheté prix? comprar! precio? barato! which? max? vacuum? phone? headphones? model?
    """,
    "cars": """
        car! cars! engine! tire! tires! tyre*! brake* gearbox! clutch! exhaust! mileage! garage!
        catalytic! diesel! fuel! vehicle* motorcycle! golf? toyota! volkswagen! battery? oxygen?
        auto? motor? werkstatt! bremse* reifen! getriebe! voiture! moteur! pneu* frein* coche!
        frenos! neumático* converter misfire*
    """,
    "music": """
        music! song*! chord*! guitar! piano! melody! lyrics! band? album* playlist! bass? drum*
        scale? tune? singer* violin! rhythm? orchestra! strum* key? concert? minor? major? musik!
        lied? akkord* gitarre! klavier! musique! chanson! accord? guitare! música! canción! acorde*
        guitarra! choir?
    """,
    "film": """
        film! films! movie*! series? cinema! director! actor* actors! actress* netflix! season?
        episode* scene? spoiler* trailer! oscar! documentary! kino! serie? regisseur! schauspieler*
        cinéma! réalisateur! película! cine! sci? thriller!
    """,
    "books": """
        book*! author*! novel? reading? read? library? publisher* bestseller! kindle! buch! bücher!
        autor* lesen? livre* auteur* lire? libro* leer! autora fiction? fantasy?
    """,
    "sports": """
        football! soccer! basketball! tennis! league? goal? goals! match? player? team? coach?
        olympic* offside! referee! defender* attacker? championship! ball? cricket! rugby! hockey!
        fußball! spieler? mannschaft! tor? bundesliga! équipe? fútbol! partido? jugador* gol! var?
        penalty?
    """,
    "games": """
        d&d dnd! dungeon! dungeons! chess! boardgame* rpg! playstation! nintendo! xbox! minecraft!
        quest* dice! campaign? wizard! tavern! dm? players? level? poker! puzzle* oneshot steam?
        schach! spiel? brettspiel* jeu? jeux! échecs! juego* ajedrez! hag goblin! dragon?
    """,
    "politics": """
        election*! vote* votes! voter* parliament! government! president! minister! candidate*
        party? parties! policy? democra* democracy! senate! congress! referendum! council!
        coalition! majority! canton! wahl! wahlen! partei! regierung! bundestag! abstimmung!
        élection! gouvernement! parti? député! elección* elecciones! gobierno! partido? votar!
    """,
    "events": """
        party? wedding*! birthday! guest* guests! invitation*! invite* surprise! venue! celebrat*
        anniversary! conference! festival! buffet! catering! decoration* hochzeit! geburtstag!
        feier! gäste! einladung! mariage! anniversaire! fête! invité* boda! cumpleaños! fiesta!
        invitados! fair?
    """,
    "productivity": """
        productivity! todo! todos! calendar! schedule* deadline* priorit* routine* habit*
        procrastinat* focus* plan? planning! week? weekly? tasks! task? organise* organize* automat*
        zapier! notion! pomodoro! reminder* zeitmanagement! aufgabe* termin* planung! organiser
        organizar tareas! checklist!
    """,
    "marketing": """
        marketing! campaign* seo! ads! ad? advert* audience! slogan*! tagline*! instagram! tiktok!
        facebook! linkedin? hashtag*! launch* brand! branding! funnel! conversion* newsletter?
        landing? influencer* werbung! zielgruppe! kampagne! publicité! marque? publicidad! marca?
        copy?
    """,
    "support": """
        customer* refund*! complaint*! complain* ticket* helpdesk! parcel! parcels! delivery?
        replacement? annoyed apolog* kunde* kunden! beschwerde! reklamation! rückerstattung! client?
        réclamation! remboursement! cliente? queja! reembolso! reclamación!
    """,
}

"""Stop words: articles, pronouns, prepositions, conjunctions and auxiliaries, which nobody searches for.

What must hold: a list never changes once a version with it is out (see ``languages``). It has words of grammar only, in
lower case, cut as the simple tokenizer cuts them: ``l'eau`` begins with ``l``.
"""

# ruff: noqa: RUF001 - words of other alphabets, whose letters look like ours

from __future__ import annotations

STOP_WORDS: dict[str, str] = {
    "danish": """
        af alle at begge blev blive bliver da de dem den denne der deres det dette dig din dine disse dit du efter
        eller en end er et for fra ham han hans har havde hende hendes hos hun hvad hvem hver hvilke hvilken hvis hvor
        hvordan i ikke ind jeg jer jeres jo kan kunne man må med men mig min mine mit når nogen noget nogle nu og om op
        os over på så sig sin sine sit skal skulle som til ud under var ved vi vil ville vor vore vores være været
    """,
    "dutch": """
        aan al als bij dan dat de deze die dit doch door dus een en er ge geen haar had hadden heb hebben hebt heeft
        hem het hier hij hoe hun ik in indien is ja je jij jou jouw jullie kan kon kunnen maar me met mij mijn na naar
        niet nog nu of om omdat onder ons onze ook op over reeds te tegen ten ter toch toen tot u uit uw van voor want
        waren was wat we wel werd werden wie wij wil word worden wordt zal ze zich zij zijn zo zonder zou zouden
    """,
    "english": """
        a an and are as at be been but by for from has have if in into is it its no not of on or such than that the
        their then there these they this to was were which will with
    """,
    "finnish": """
        ei eivät emme en et että ette hän häneen hänelle häneltä hänen hänessä hänestä hänet häntä he heidän heidät
        heille heiltä heissä heistä heitä itse ja joiden joihin joilla joille joissa joista joita joka joko jolla jolle
        jolta jonka jos jossa josta jota jotka kanssa ken kenen kenet ketä koska kuin kuka kun me meidän meidät meille
        meiltä meissä meistä meitä mikä minä minkä minua minulla minulle minulta minun minussa minusta minut mitä mitkä
        mukaan mutta myös näiden näissä näistä näitä nämä ne niiden niihin niille niiltä niin niissä niistä niitä nuo
        nyt ole olemme olen olet olette oli olimme olin olisi olit olivat olla olleet ollut on ovat se sekä sen siihen
        siinä siitä sille siltä sinä sinua sinulla sinulle sinun sinut sitä tai tämä tämän tässä tästä tätä te teidän
        teidät teille teitä tuo tuon vaan vai vaikka vain
    """,
    "french": """
        afin ai aie aient as au aucun aucune aux avaient avais avait avec avez avoir avons ayant à c ce ceci cela celle
        celles celui ces cet cette ceux chez comme d dans de des donc dont du elle elles en es est et eu eux étaient
        étais était étant être furent fut il ils j je jusqu l la laquelle le lequel les lesquelles lesquels leur leurs
        lorsque lui m ma mais me mes moi mon n ne ni nos notre nous on ont ou où par parce pas pour puisque qu quand
        que quel quelle quelles quels qui quoi s sa sans se sera seront ses si soi soient soit sommes son sont sous
        suis sur t ta te tes toi ton tu un une vers vos votre vous y
    """,
    "german": """
        aber als am an auch auf aus bei beim bin bis bist da damit dann das dass daß dein deine deinem deinen deiner
        dem den denn der deren des dessen dich die dies diese diesem diesen dieser dieses dir doch du durch ein eine
        einem einen einer eines er es euch euer eure für habe haben hast hat hatte hatten ich ihm ihn ihnen ihr ihre
        ihrem ihren ihrer ihres im in ins ist ja jede jedem jeden jeder jedes kann kein keine keinem keinen keiner
        können man mein meine meinem meinen meiner mich mir mit nach nicht noch nun nur ob oder ohne sein seine seinem
        seinen seiner seines sich sie sind so um und uns unser unsere unter über vom von vor war waren was weil welche
        welcher welches wenn wer werde werden wie wir wird wurde wurden zu zum zur zwischen
    """,
    "italian": """
        a abbia abbiamo ad agli ai al alla alle allo anche avere aveva avevano c che chi ci cioè coi col come con
        contro cui d da dagli dai dal dall dalla dalle dallo degli dei del dell della delle dello di dove e ed era
        erano essere essi è fra gli ha hai hanno ho i il in io l la le lei li lo loro lui ma me mi mia mie miei mio ne
        negli nei nel nell nella nelle nello né noi non nostra nostre nostri nostro o per perché più quale quali quando
        quella quelle quelli quello questa queste questi questo s se sei si sia siamo siano sono sopra sotto su sua sue
        sugli sui sul sull sulla sulle sullo suo suoi tra tu tua tue tuo tuoi un una uno v vi voi vostra vostre vostri
        vostro
    """,
    "norwegian": """
        alle at av begge ble blei bli blir blitt da de deg dei deim deira deires dem den denne der dere deres det dette
        di din disse ditt du eg ei ein eit eitt eller en enn er et ett etter for fordi fra før ha hadde ham han hans
        har hennar henne hennes her hjå ho hun hva hvem hver hvilke hvilken hvis hvor hvordan hvorfor i ifrå ikke ikkje
        inn ja jeg kan korleis kunne kva kvar kven man må med meg mellom men mi min mine mitt mot nå når no noe noen
        noko nokon og også om opp oss over på så seg sia sidan sin sine sitt skal skulle som til um under ut uten var
        ved vere verte vi vil ville vore vors vort være vært
    """,
    "portuguese": """
        a ao aos aquela aquelas aquele aqueles aquilo as até à às com como da das de dela delas dele deles depois do
        dos e ela elas ele eles em entre era eram essa essas esse esses esta estas estava estavam está estão este estes
        estou eu é foi for foram haver havia há isso isto já lhe lhes mas me mesmo meu meus minha minhas na nas não nem
        no nos nossa nossas nosso nossos nós num numa o os ou para pela pelas pelo pelos por porque qual quando que
        quem são se seja sem ser será seu seus somos sou só sua suas também te tem tenho ter teu teus teve têm tinha
        tinham tu tua tuas um uma você vocês vos
    """,
    "russian": """
        а без бы был была были было быть в вам вами вас весь во вот все всё всего всей всем всех вся вы где да даже для
        до его ее её ей ему если есть еще ещё же за и из или им ими их к как ко когда которая которого которое которой
        котором которую которые который которых кто ли либо мне мной мы на над нам нами нас не нём него нее неё ней нем
        нет ни ним ними них но о об обо он она они оно от по под при с себе себя со собой так такая также такие такое
        такой там тебе тебя тем то того тоже той только том тот ту ты у уж уже чего чем что чтобы эта эти этим этих это
        этого этой этом этому этот эту я
    """,
    "spanish": """
        a al ante antes aquel aquella aquellas aquello aquellos como con contra cual cuales cuando de del desde donde
        durante e el ella ellas ello ellos en entre era eran es esa esas ese eso esos esta estaba estaban estar estas
        está están este esto estos estoy él fue fueron fui ha haber había habían han has hasta hay he la las le les lo
        los me mi mis mí mía mías mío míos ni no nos nosotras nosotros nuestra nuestras nuestro nuestros o os para pero
        por porque que qué quien quienes quién se sea sean ser si sido sin sí sobre sois somos son soy su sus suya
        suyas suyo suyos también te ti tu tus tuya tuyo tú u un una unas uno unos vosotras vosotros vuestra vuestras
        vuestro vuestros y ya yo
    """,
    "swedish": """
        alla allt att av än är åt blev bli blir blivit där då de dem den denna deras dess dessa det detta dig din dina
        ditt du efter ej eller en er era ert ett för från ha hade han hans har här henne hennes hon honom hur i icke
        ingen inom inte jag ju kan kunde man med mellan men mig min mina mitt mot när någon något några ni nu och om
        oss över på så sådan sådana sådant sedan sig sin sina sitt ska skall skulle som till under upp ut utan vad var
        vara varför varit varje vars vart vår våra vårt vem vi vid vilka vilken vilket
    """,
}
